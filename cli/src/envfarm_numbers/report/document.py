"""What a report is made of. Every number in it stands in the JSON, and says where: `Number.path`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Format = Literal["percent", "points", "count", "number", "money", "p", "text"]


@dataclass(frozen=True, slots=True)
class Number:
    """A value with its place in the report's JSON, as a JSON pointer (RFC 6901)."""

    value: float | int | str | None
    path: str
    format: Format = "number"

    @property
    def text(self) -> str:
        return show(self.value, self.format)


Cell = str | Number


@dataclass(frozen=True, slots=True)
class Card:
    """A headline figure with its interval and what it is."""

    label: str
    """Its short name."""
    number: Number
    low: Number | None = None
    high: Number | None = None
    what: str = ""
    """In plain words, under the name."""
    note: str = ""
    fraction: tuple[Number, Number, str] | None = None
    """Numerator, denominator, unit."""


@dataclass(frozen=True, slots=True)
class Cards:
    cards: Sequence[Card]


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; plain text."""

    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that must be read before the figures."""

    text: str
    kind: Literal["warning", "note"] = "warning"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; a column whose cells are numbers is set right and sorts by value."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """`draw(width)` gives an SVG element; it is called for a wide and a narrow page.

    `table` holds the same numbers for those who do not see the drawing.
    """

    id: str
    title: str
    caption: str
    draw: Callable[[int], str]
    table: Table
    legend: Sequence[tuple[str, str]] = ()
    """(class of the mark, label), when there is more than one series."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a conversation or a diff: (kind, label, text)."""

    lines: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Details:
    """Folded away until asked for."""

    summary: str
    blocks: Sequence["Block"]
    id: str = ""


Block = Cards | Text | Notice | Table | Figure | Lines | Details


@dataclass(frozen=True, slots=True)
class Section:
    id: str
    title: str
    blocks: Sequence[Block]
    lead: str = ""


@dataclass(slots=True)
class Document:
    """A whole report and the JSON that its numbers are in."""

    title: str
    subtitle: str
    sections: list[Section]
    data: dict[str, Any]
    notices: list[Notice] = field(default_factory=list)


def show(value: float | int | str | None, how: Format) -> str:
    """A value as the report writes it; an en dash for none."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    match how:
        case "percent":
            return f"{value:.2%}".replace("%", "\N{NO-BREAK SPACE}%")
        case "points":
            return f"{value * 100:+.2f}".replace("-", "−")
        case "count":
            return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
        case "money":
            return f"{value:,.2f}" if abs(value) >= 1 or value == 0 else f"{value:.3g}"
        case "p":
            return f"{value:.4f}" if value >= 0.0001 else "< 0.0001"
        case _:
            return f"{value:.4g}".replace("-", "−")


def pointer(*keys: str | int) -> str:
    """JSON pointer of a key path."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)


def lookup(data: Any, path: str) -> Any:
    """The value at a JSON pointer; KeyError, IndexError when there is none."""
    for key in path.split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        data = data[int(name)] if isinstance(data, list) else data[name]
    return data


def at(data: Any, *keys: str | int, how: Format = "number") -> Number:
    """The Number that stands at a key path of `data`."""
    path = pointer(*keys)
    return Number(lookup(data, path), path, how)
