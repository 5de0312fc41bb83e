"""The private half of a task: golden actions and checks, loaded strictly from `private/*.yaml`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from envfarm.canonical import content_hash
from envfarm.errors import ConfigError, NoChecks
from envfarm_common import strict_yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    StringConstraints,
    TypeAdapter,
    field_validator,
    model_validator,
)
from pydantic_core import SchemaError

Name = Annotated[str, Field(min_length=1, max_length=120)]
ColumnName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$")]
TableName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]*$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Action(_Strict):
    """One tool call."""

    tool: Name
    arguments: dict[str, JsonValue] = {}


class StateCheck(_Strict):
    """The final state equals the golden state."""

    name: Name
    kind: Literal["state"]
    unstable: list[ColumnName] = []
    """Columns whose values may differ, such as free text."""
    keys: dict[TableName, list[str]] = {}
    """Natural key of rows whose primary key is generated; these are compared without it."""
    refs: dict[ColumnName, TableName] = {}
    """Columns that point at generated primary keys of a table in `keys`."""
    allow_tables: list[TableName] = []
    """Tables that may end in any state."""

    @field_validator("keys")
    @classmethod
    def _not_empty(cls, keys: dict[str, list[str]]) -> dict[str, list[str]]:
        if not all(keys.values()):
            raise ValueError("a natural key needs at least one column")
        return keys

    @field_validator("refs")
    @classmethod
    def _keyed(cls, refs: dict[str, str], info: Any) -> dict[str, str]:
        missing = set(refs.values()) - set(info.data.get("keys", {}))
        if missing:
            raise ValueError(f"{', '.join(sorted(missing))}: a referenced table needs `keys`")
        return refs


class SqlCheck(_Strict):
    """A read-only query over the sealed state gives true, or exactly these rows in this order."""

    name: Name
    kind: Literal["sql"]
    query: Annotated[str, Field(min_length=1, max_length=10_000)]
    expect: Literal[True] | list[dict[str, JsonValue]]


class UntouchedCheck(_Strict):
    """No row of these tables changed."""

    name: Name
    kind: Literal["untouched"]
    tables: Annotated[list[TableName], Field(min_length=1)]


class ReplyCheck(_Strict):
    """What the final reply says; letter case is ignored by `contains_*`, not by `matches`."""

    name: Name
    kind: Literal["reply"]
    contains_all: list[Name] = []
    contains_none: list[Name] = []
    matches: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """Searched anywhere, in time linear in the reply: no look-around, no back-references."""

    @field_validator("matches")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            reply_pattern(pattern)
        return pattern

    @model_validator(mode="after")
    def _says_something(self) -> "ReplyCheck":
        if not (self.contains_all or self.contains_none or self.matches):
            raise ValueError("a reply check needs contains_all, contains_none or matches")
        return self


Check = Annotated[StateCheck | SqlCheck | UntouchedCheck | ReplyCheck, Field(discriminator="kind")]


class GoldenRun(_Strict):
    """Calls that answer the task rightly, and what the agent says then."""

    actions: list[Action]
    reply: Annotated[str, Field(max_length=10_000)]


class NearMiss(_Strict):
    """A whole run that looks right and must fail."""

    name: Name
    actions: list[Action]
    reply: Annotated[str, Field(max_length=10_000)] | None = None
    """None takes the golden reply."""


class CheckFile(_Strict):
    """One file of `private/`."""

    task: Annotated[str, Field(pattern=r"^[a-z0-9_-]+/[a-z0-9_-]+$")]
    empty: Literal["fails", "passes"] = "fails"
    """What a run without calls and without a reply must do."""
    golden: GoldenRun
    checks: Annotated[list[Check], Field(min_length=1)]
    extra_write: Action
    """Done after the golden actions it must make the run fail."""
    near_misses: list[NearMiss] = []
    _checks_hash: str = PrivateAttr("")

    @field_validator("checks")
    @classmethod
    def _distinct(cls, checks: list[Any]) -> list[Any]:
        names = [check.name for check in checks]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"two checks are called {', '.join(sorted(twice))!r}")
        if {check.kind for check in checks} == {"reply"}:
            raise ValueError("words alone are no proof: add a state, sql or untouched check")
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


def reply_pattern(pattern: str) -> TypeAdapter[str]:
    """A matcher with linear running time (pydantic's regex engine); ValueError when malformed."""
    try:
        return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])
    except SchemaError as error:
        raise ValueError(f"not a usable pattern: {error}") from error
