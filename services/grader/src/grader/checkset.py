"""The private half of a task: golden actions and checks, loaded strictly from `private/*.yaml`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from envfarm.canonical import content_hash
from envfarm.errors import ConfigError, NoChecks
from envfarm_common import strict_yaml
from pydantic import Field, JsonValue, PrivateAttr, field_validator

from grader.check_kinds import Check, Name, Strict, TableName


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
    empty: Literal["fails", "passes"] = "fails"
    """What a run without calls and without a reply must do."""
    golden: GoldenRun
    checks: Annotated[list[Check], Field(min_length=1)]
    extra_write: Action
    """Done after the golden actions it must make the run fail."""
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


def load_checkset(domains_dir: Path) -> Checkset:
    """Read every `<domain>/private/*.yaml`; ConfigError names file and line of a mistake."""
    if not domains_dir.is_dir():
        raise ConfigError(f"{domains_dir} is not a folder", hint="set GRADER_DOMAINS_DIR")
    files: dict[str, CheckFile] = {}
    for path in sorted(domains_dir.glob("*/private/*.yaml")):
        loaded = strict_yaml.load(path, CheckFile)
        expected = f"{path.parent.parent.name}/{path.stem}"
        if loaded.task != expected:
            raise ConfigError(f"{path}:1: task is {loaded.task!r}; by its place it is {expected!r}")
        files[loaded.task] = loaded
    if not files:
        raise ConfigError(f"{domains_dir} holds no <domain>/private/*.yaml")
    return Checkset(files)
