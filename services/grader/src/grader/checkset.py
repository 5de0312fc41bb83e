"""The private half of a task: golden actions and checks, loaded strictly from `private/*.yaml`, or from
`private/thinkingbox/*.json` where a dataset of others was imported."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from envfarm.canonical import content_hash
from envfarm.errors import ConfigError, NoChecks
from envfarm_common import strict_yaml
from pydantic import (
    Field,
    JsonValue,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from grader.check_kinds import Check, Name, Strict, TableName

GOLDEN_CASE = "golden_test_case"
"""Key of a server's init under which datasets keep their golden calls."""
GOLDEN_REPLY = "Done."
"""Datasets say nothing of the last words of a golden run."""


class Action(Strict):
    """One tool call."""

    tool: Name
    """As the world's tools.py names it."""
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class GoldenRun(Strict):
    """Calls that answer the task rightly, and what the agent says then."""

    actions: list[Action]
    """In order; every one must be accepted."""
    reply: Annotated[str, Field(max_length=10_000)]
    """The agent's last words."""


class NearMiss(Strict):
    """A whole run that looks right and must fail."""

    name: Name
    actions: list[Action]
    reply: Annotated[str, Field(max_length=10_000)] | None = None
    """None takes the golden reply."""


class Equivalent(Strict):
    """A mutant that a person declares right, and the rows in which it ends otherwise than golden."""

    mutant: Annotated[str, Field(min_length=1, max_length=300)]
    """Its name, as `envfarm tasks validate` prints it."""
    rows: Annotated[dict[TableName, list[dict[str, JsonValue]]], Field(min_length=1)]
    """Primary keys of exactly the rows that differ, by table."""
    because: Annotated[str, Field(min_length=10, max_length=500)]


class CheckFile(Strict):
    """The private half of a task: the golden run and the checks that tell it from wrong ones."""

    task: Annotated[str, Field(pattern=r"^[a-z0-9_-]+/[a-z0-9_-]+$")]
    empty: Literal["fails", "passes", "either"] = "fails"
    """What a run without calls and without a reply must do; `either` for tasks of others alone."""
    golden: GoldenRun
    checks: Annotated[list[Check], Field(min_length=1)]
    extra_write: Action | None = None
    """Done after the golden actions it must make the run fail; tasks of others have none."""
    near_misses: list[NearMiss] = Field(default_factory=list)
    equivalent: list[Equivalent] = Field(default_factory=list)
    _checks_hash: str = PrivateAttr("")

    @field_validator("checks")
    @classmethod
    def _distinct(cls, checks: list[Any]) -> list[Any]:
        names = [check.name for check in checks]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"two checks are called {', '.join(sorted(twice))!r}")
        if {check.kind for check in checks} <= {"reply", "rubric"}:
            raise ValueError(
                "words alone are no proof: add a state, sql, untouched or python check"
            )
        return checks

    @model_validator(mode="after")
    def _of_ours_or_of_others(self) -> Self:
        foreign = [check for check in self.checks if check.kind == "dataset_test"]
        if len(foreign) > 1:
            raise ValueError("a task has one dataset_test")
        if not foreign and (self.extra_write is None or self.empty == "either"):
            raise ValueError("extra_write and what an empty run does can be left open only beside a "
                             "dataset_test")  # fmt: skip
        return self

    @property
    def is_foreign(self) -> bool:
        """Whether a dataset's own test judges the task, whose author knew nothing of our proofs."""
        return any(check.kind == "dataset_test" for check in self.checks)

    @property
    def checks_hash(self) -> str:
        """SHA-256 (hex) of this file's content, comments and layout left out."""
        if not self._checks_hash:
            self._checks_hash = content_hash(self.model_dump(mode="json"))
        return self._checks_hash


class Checkset:
    """All check files of all domains, by task id."""

    def __init__(self, files: Mapping[str, CheckFile]):
        self._files = dict(files)

    def find(self, task_id: str) -> CheckFile:
        """The checks of a task; NoChecks when there are none, which is never a pass."""
        if task_id not in self._files:
            raise NoChecks(
                f"there are no checks for the task {task_id!r}",
                hint="add its file under the domain's private/ folder and run ingest",
            )
        return self._files[task_id]

    def task_ids(self, domain: str = "") -> list[str]:
        """Ids in order; of one domain when given."""
        return sorted(t for t in self._files if not domain or t.startswith(f"{domain}/"))


class DatasetFile(Strict):
    """The private half of an imported task, as `envfarm import thinkingbox --worlds` writes it."""

    uid: str
    scenario: str
    tags: dict[str, JsonValue]
    fixtures: dict[str, JsonValue]
    test_code: str
    golden: dict[str, dict[str, JsonValue]]
    """By server: what its init was not told."""

    def as_checks(self, task_id: str) -> CheckFile:
        """Its golden calls and its test, as ours; ValidationError names what is wrong with them."""
        calls: list[Any] = []
        kept: dict[str, dict[str, JsonValue]] = {}
        for server, told in self.golden.items():
            case = told.get(GOLDEN_CASE) or {}
            found = case.get("tool_interactions") if isinstance(case, dict) else case
            calls.extend(found if isinstance(found, list) else [found] if found else [])
            words = {key: value for key, value in told.items() if "rubric" in key.lower()}
            if words:
                kept[server] = words
        actions = [
            {"tool": call.get("tool"), "arguments": call.get("parameters") or {}}
            if isinstance(call, dict)
            else call
            for call in calls
        ]
        return CheckFile.model_validate(
            {
                "task": task_id,
                "empty": "either",
                "golden": {"actions": actions, "reply": GOLDEN_REPLY},
                "checks": [
                    {
                        "name": "the dataset's test",
                        "kind": "dataset_test",
                        "code": self.test_code,
                        "kept": kept,
                    }
                ],
            }
        )


def _imported(path: Path) -> CheckFile:
    task_id = f"{path.parents[2].name}/{path.stem}"
    try:
        return DatasetFile.model_validate_json(path.read_bytes()).as_checks(task_id)
    except (OSError, ValidationError) as error:
        if isinstance(error, OSError):
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{path}: {where + ': ' if where else ''}{first['msg']}") from error


def load_checkset(domains_dir: Path) -> Checkset:
    """Read every `<domain>/private/*.yaml` and `<domain>/private/thinkingbox/*.json`; ConfigError names
    file and line of a mistake."""
    if not domains_dir.is_dir():
        raise ConfigError(f"{domains_dir} is not a folder", hint="set GRADER_DOMAINS_DIR")
    files: dict[str, CheckFile] = {}
    for path in sorted(domains_dir.glob("*/private/*.yaml")):
        loaded = strict_yaml.load(path, CheckFile)
        expected = f"{path.parent.parent.name}/{path.stem}"
        if loaded.task != expected:
            raise ConfigError(f"{path}:1: task is {loaded.task!r}; by its place it is {expected!r}")
        files[loaded.task] = loaded
    for path in sorted(domains_dir.glob("*/private/thinkingbox/*.json")):
        imported = _imported(path)
        if imported.task in files:
            raise ConfigError(f"{path}: {imported.task} has checks in private/*.yaml, too")
        files[imported.task] = imported
    if not files:
        raise ConfigError(f"{domains_dir} holds no <domain>/private/*.yaml")
    return Checkset(files)
