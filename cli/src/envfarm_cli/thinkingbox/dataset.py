"""A dataset on disk: agent/, scenario/, test_case/; test cases hydrated into tasks that stand alone."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from envfarm.canonical import content_hash
from envfarm.errors import ConfigError
from pydantic import BaseModel, ValidationError

from envfarm_cli.thinkingbox import history, plain_yaml, python_tests
from envfarm_cli.thinkingbox.test_case import (
    Agent,
    CaseFields,
    Fixtures,
    Scenario,
    merged_state,
    merged_tags,
)

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Hydrated:
    """A test case with everything that it needs; nothing in it names a place on this machine."""

    uid: str
    """Selector: FILE:TEST."""
    place: str
    """File and line, for people."""
    content: dict[str, Any]
    """As a harness sees it."""

    @property
    def hash(self) -> str:
        """SHA-256 (hex) of uid and content as canonical JSON."""
        return content_hash({"uid": self.uid, **self.content})


class Dataset:
    """ConfigError when `folder`, or the folder dataset/ in it, is none."""

    def __init__(self, folder: Path):
        inner = folder / "dataset"
        self.root = inner if (inner / "test_case").is_dir() else folder
        for part in ("agent", "scenario", "test_case"):
            if not (self.root / part).is_dir():
                raise ConfigError(
                    f"{folder} is no dataset: there is no {part}/ in it",
                    hint="give the folder that holds agent/, scenario/ and test_case/",
                )
        self._scenarios: dict[str, Scenario] = {}
        self._files: dict[Path, dict[str, tuple[CaseFields, int]]] = {}

    def agents(self) -> list[str]:
        return sorted(path.stem for path in (self.root / "agent").glob("*.yaml"))

    def agent(self, name: str) -> Agent:
        if name not in self.agents():
            raise ConfigError(
                f"the dataset has no agent {name!r}",
                hint=f"agents are: {', '.join(self.agents()) or 'none'}",
            )
        return _checked(self.root / "agent" / f"{name}.yaml", Agent)

    def selectors(self) -> list[str]:
        """Every test case of every file, files in the order of their names."""
        found = []
        for path in sorted((self.root / "test_case").rglob("*")):
            is_yaml = path.suffix == ".yaml" and not path.name.endswith(".meta.yaml")
            if path.suffix == ".py" or (is_yaml and path.name != "conftest.yaml"):
                found += [f"{path.name}:{name}" for name in self._cases(path)]
        return found

    def hydrate(self, selector: str, agent: Agent) -> Hydrated:
        """ConfigError says what of the test case is missing or wrong."""
        parts = selector.split(":")
        if len(parts) != 2 or not all(parts):
            raise ConfigError(f"{selector!r} is not FILE:TEST")
        path = self._find(parts[0])
        if parts[1] not in self._cases(path):
            raise ConfigError(f"{path} has no test case {parts[1]!r}")
        case, line = self._cases(path)[parts[1]]
        scenario = self._scenario(case.scenario, f"{path}:{line}")
        tags = merged_tags(scenario.tags, case.tags)
        content = {
            "agent": agent.model_dump(),
            "scenario": case.scenario,
            "world_state": merged_state(scenario, case),
            "tools": [tool.model_dump() for tool in scenario.tools],
            "bot_instructions": _joined(scenario.bot_instructions, case.bot_instructions),
            "history": history.resolve(case.history, path) if case.history else None,
            "query": case.query,
            "user_context": case.user_context,
            "max_user_sim_turns": case.max_user_sim_turns,
            "max_agent_sim_turns": case.max_agent_sim_turns,
            "format_query": case.format_query,
            "fixtures": {**self._fixtures(path), **scenario.fixtures},
            "tags": tags,
            "test_code": case.test_code,
        }
        return Hydrated(f"{path.name}:{parts[1]}", f"{path}:{line}", content)

    def _find(self, name: str) -> Path:
        """test_case/NAME, else NAME in the folder that is the longest prefix of its words."""
        base = self.root / "test_case"
        words = name.split("_")
        prefixes = ["_".join(words[:count]) for count in range(len(words) - 1, 0, -1)]
        for path in (base / name, *(base / prefix / name for prefix in prefixes)):
            # A name with slashes or dots in it must not lead out of the dataset.
            if path.is_file() and path.resolve().is_relative_to(base.resolve()):
                return path
        raise ConfigError(f"the dataset has no test file {name!r}")

    def _cases(self, path: Path) -> dict[str, tuple[CaseFields, int]]:
        if path not in self._files:
            read = _python_cases if path.suffix == ".py" else _yaml_cases
            self._files[path] = read(path)
        return self._files[path]

    def _scenario(self, name: str, where: str) -> Scenario:
        if name not in self._scenarios:
            path = self.root / "scenario" / f"{name}.yaml"
            if "/" in name or not path.is_file():
                raise ConfigError(f"{where}: there is no scenario {name!r}")
            self._scenarios[name] = _checked(path, Scenario)
        return self._scenarios[name]

    def _fixtures(self, path: Path) -> Fixtures:
        """conftest.yaml of each folder from test_case/ down to the file's; the nearer one wins."""
        base = self.root / "test_case"
        found: Fixtures = {}
        for folder in [*reversed(path.parent.relative_to(base).parents), path.parent]:
            place = base / folder / "conftest.yaml"
            document = plain_yaml.read(place) if place.is_file() else None
            if document is not None:
                try:
                    found |= _Conftest.model_validate(document).fixtures
                except ValidationError as error:
                    raise _wrong(place, error) from error
        return found


class _Conftest(BaseModel):
    fixtures: Fixtures = {}


class _CaseFile(BaseModel):
    test_cases: list[CaseFields]


def read_selectors(path: Path) -> list[str]:
    """A test list: a YAML list of FILE:TEST, each once."""
    found = plain_yaml.read(path)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ConfigError(f"{path} is no test list: a YAML list of FILE:TEST is expected")
    if twice := next((item for item in found if found.count(item) > 1), None):
        raise ConfigError(f"{path}: {twice} stands there twice")
    if not found:
        raise ConfigError(f"{path} lists no test case")
    return found


def _python_cases(path: Path) -> dict[str, tuple[CaseFields, int]]:
    found: dict[str, tuple[CaseFields, int]] = {}
    for test in python_tests.read(path):
        fields = {**test.fields, "uid": test.name, "test_code": test.code}
        try:
            found[test.name] = (CaseFields.model_validate(fields), test.line)
        except ValidationError as error:
            raise _wrong(path, error, test.line) from error
    return found


def _yaml_cases(path: Path) -> dict[str, tuple[CaseFields, int]]:
    found = _checked(path, _CaseFile).test_cases
    names: Iterable[str] = [case.uid for case in found]
    if twice := next((name for name in names if [*names].count(name) > 1), None):
        raise ConfigError(f"{path}: there are two test cases {twice!r}")
    return {case.uid: (case, 1) for case in found}


def _checked(path: Path, model: type[M]) -> M:
    try:
        return model.model_validate(plain_yaml.read(path))
    except ValidationError as error:
        raise _wrong(path, error) from error


def _wrong(path: Path, error: ValidationError, line: int = 1) -> ConfigError:
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    message = first["msg"].removeprefix("Value error, ")
    return ConfigError(f"{path}:{line}: {where + ': ' if where else ''}{message}")


def _joined(*parts: str | None) -> str | None:
    given = [part for part in parts if part is not None]
    return "\n".join(given) if given else None
