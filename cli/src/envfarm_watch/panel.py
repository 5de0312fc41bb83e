"""What a screen is made of. A query is PromQL; `$window` in it is the rate's window."""

from dataclasses import dataclass, field
from typing import Literal

Unit = Literal[
    "episodes/s",
    "groups/s",
    "tokens/s",
    "requests/s",
    "seconds",
    "share",
    "episodes",
    "groups",
    "slots",
    "attempts",
    "requests",
    "waiting",
    "databases",
    "connections",
    "processes",
    "cores",
    "files",
    "nats",
    "reward",
    "ratio",
    "norm",
    "version",
    "versions",
    "bytes",
]
Kind = Literal["lines", "stacked", "number"]


@dataclass(frozen=True, slots=True)
class Query:
    """One expression; `legend` names each of its series: `published`, or `{{stage}}`."""

    expression: str
    legend: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """One question and the series that answer it."""

    title: str
    question: str
    """What the panel answers and how to read it; its description in Grafana."""
    unit: Unit
    queries: tuple[Query, ...]
    kind: Kind = "lines"
    width: int = 8
    """Of 24 columns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """One screen: one question, answered row by row."""

    uid: str
    title: str
    question: str
    rows: tuple[Row, ...] = field(default_factory=tuple)

    @property
    def panels(self) -> tuple[Panel, ...]:
        return tuple(panel for row in self.rows for panel in row.panels)
