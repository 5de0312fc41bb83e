"""What each kind of check may declare. Nothing is guessed: a difference is tolerated where a check
names it, and nowhere else.
"""

import ast
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    TypeAdapter,
    field_validator,
    model_validator,
)
from pydantic_core import SchemaError

Name = Annotated[str, Field(min_length=1, max_length=120)]
ColumnName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$")]
ColumnPath = Annotated[
    str, Field(pattern=r"^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*(\.[A-Za-z0-9_-]+)*$")
]
TableName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]*$")]
Query = Annotated[str, Field(min_length=1, max_length=10_000)]
Span = Annotated[str, Field(pattern=r"^[1-9][0-9]*(s|m|h|d)$")]

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Strict(BaseModel):
    """Unknown keys are refused, values are never converted, instances never change."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


class AllowedRows(Strict):
    """New rows beyond the golden ones that do no harm, such as a log of reads."""

    table: TableName
    where: dict[str, JsonValue] = {}
    """Columns and the values that such a row must have."""
    at_most: Annotated[int, Field(ge=1, le=10_000)]


class StateCheck(Strict):
    """The final state equals the golden state."""

    name: Name
    kind: Literal["state"]
    unstable: list[ColumnName] = []
    """Columns whose values may differ, such as free text, in the rows that the golden run changes.
    A row that it leaves alone must be left alone here, too."""
    ignore: list[ColumnName] = []
    """Columns that are not compared in any row, such as a time of last reading."""
    keys: dict[TableName, list[str]] = {}
    """Natural key of rows whose primary key is generated; these are compared without it."""
    refs: dict[ColumnName, TableName] = {}
    """Columns that point at generated primary keys of a table in `keys`; they are compared by the
    natural key of the row that they name."""
    allow_tables: list[TableName] = []
    """Tables that may end in any state."""
    allow_rows: list[AllowedRows] = []
    unordered: list[ColumnPath] = []
    """Arrays, or places inside JSON (`table.column.key`), that are compared as multisets."""
    json_text: list[ColumnName] = []
    """Text columns that hold JSON and are compared as JSON."""
    tolerance: dict[ColumnName, Annotated[float, Field(gt=0)]] = {}
    """Largest absolute difference of a number from the golden one."""
    windows: dict[ColumnName, Span] = {}
    """Largest distance of a date or time from the golden one: 30s, 5m, 2h, 1d."""

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

    @model_validator(mode="after")
    def _one_rule_a_column(self) -> Self:
        rules = [*self.unstable, *self.ignore, *self.tolerance, *self.windows]
        twice = sorted({column for column in rules if rules.count(column) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)}: two rules for one column")
        loose = {*rules}
        keyed = {f"{table}.{column}" for table, key in self.keys.items() for column in key}
        if loose & keyed:
            raise ValueError(
                f"{', '.join(sorted(loose & keyed))}: a column of a natural key must be compared as it is"
            )
        asked = {f"{rule.table}.{column}" for rule in self.allow_rows for column in rule.where}
        if asked & loose:
            raise ValueError(
                "allow_rows: `where` cannot ask for a column that another rule loosens"
            )
        return self


def span_seconds(span: str) -> int:
    """Seconds of a span such as 5m."""
    return int(span[:-1]) * _SECONDS[span[-1]]


class SqlCheck(Strict):
    """A read-only query over the sealed state gives true, or exactly these rows."""

    name: Name
    kind: Literal["sql"]
    query: Query
    expect: Literal[True] | list[dict[str, JsonValue]]
    any_order: bool = False
    """Whether the rows may come in any order."""
    tolerance: dict[str, Annotated[float, Field(gt=0)]] = {}
    """Largest absolute difference of a number, by result column."""


class UntouchedCheck(Strict):
    """No row of these tables changed."""

    name: Name
    kind: Literal["untouched"]
    tables: Annotated[list[TableName], Field(min_length=1)]
    where: dict[str, JsonValue] = {}
    """Only rows with these values, before or after the change, count."""


class ReplyCheck(Strict):
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
    def _says_something(self) -> Self:
        if not (self.contains_all or self.contains_none or self.matches):
            raise ValueError("a reply check needs contains_all, contains_none or matches")
        return self


class RubricCheck(Strict):
    """A narrow question about the final reply that a judge answers with yes or no."""

    name: Name
    kind: Literal["rubric"]
    question: Annotated[str, Field(min_length=10, max_length=2_000)]
    expect: Literal["yes", "no"] = "yes"
    max_characters: Annotated[int, Field(ge=1, le=100_000)] = 8_000
    """A longer reply fails the check and is not shown to the judge."""


class PythonCheck(Strict):
    """A function `check(changes, reply, rows)` in a sandbox; it answers True, or False, or a text
    that says what is wrong."""

    name: Name
    kind: Literal["python"]
    rows: dict[Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]*$")], Query] = {}
    """Read-only queries over the sealed state; the function gets their rows by name."""
    code: Annotated[str, Field(min_length=1, max_length=20_000)]

    @field_validator("code")
    @classmethod
    def _defines_check(cls, code: str) -> str:
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError) as error:
            raise ValueError(f"not valid Python: {error}") from error
        found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "check"]
        if [a.arg for f in found for a in f.args.args] != ["changes", "reply", "rows"]:
            raise ValueError("the code must define one function check(changes, reply, rows)")
        return code


class DatasetTest(Strict):
    """A test function of a ThinkingBox dataset, run in the sandbox with the context and the judge that
    such tests expect; a task has at most one. docs/thinkingbox.md says how its verdict comes about."""

    name: Name
    kind: Literal["dataset_test"]
    code: Annotated[str, Field(min_length=1, max_length=2_000_000)]
    """The test's file; its last line names the function `__tb_test_fn`."""
    kept: dict[str, dict[str, JsonValue]] = {}
    """By server: what its effects must hold that it was not told, such as questions for the judge."""

    @field_validator("code")
    @classmethod
    def _defines_test(cls, code: str) -> str:
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError) as error:
            raise ValueError(f"not valid Python: {error}") from error
        last = tree.body[-1] if tree.body else None
        match last:
            case ast.Assign(targets=[ast.Name(id="__tb_test_fn")], value=ast.Name()):
                return code
            case _:
                raise ValueError("the last line must be `__tb_test_fn = <function>`")


Check = Annotated[
    StateCheck | SqlCheck | UntouchedCheck | ReplyCheck | RubricCheck | PythonCheck | DatasetTest,
    Field(discriminator="kind"),
]


def reply_pattern(pattern: str) -> TypeAdapter[str]:
    """A matcher with linear running time (pydantic's regex engine); ValueError when malformed."""
    try:
        return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])
    except SchemaError as error:
        raise ValueError(f"not a usable pattern: {error}") from error
