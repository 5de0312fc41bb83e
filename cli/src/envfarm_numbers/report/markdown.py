"""A document as Markdown: the same words and numbers, figures as their tables."""

from collections.abc import Sequence

from envfarm_numbers.report.document import (
    Block,
    Card,
    Cards,
    Cell,
    Details,
    Document,
    Figure,
    Lines,
    Notice,
    Number,
    Table,
    Text,
)

MOST_ROWS = 60
"""Rows of a table; what is left out is said, and is in the JSON."""


def render(document: Document) -> str:
    """The whole report as text."""
    parts = [f"# {_plain(document.title)}", _plain(document.subtitle)]
    parts += [_notice(notice) for notice in document.notices]
    for section in document.sections:
        parts.append(f"## {_plain(section.title)}")
        if section.lead:
            parts.append(_plain(section.lead))
        parts += _blocks(section.blocks)
    return "\n\n".join(part for part in parts if part) + "\n"


def _blocks(blocks: Sequence[Block]) -> list[str]:
    return [text for block in blocks for text in _block(block)]


def _block(block: Block) -> list[str]:
    match block:
        case Cards():
            return ["\n".join(_card(card) for card in block.cards)]
        case Text():
            return [_plain(block.text)]
        case Notice():
            return [_notice(block)]
        case Table():
            return [_table(block)]
        case Figure():
            return [f"### {_plain(block.title)}", _plain(block.caption), _table(block.table)]
        case Lines():
            text = "\n".join(f"{label:>9}  {text}" for _, label, text in block.lines)
            return ["```text\n" + text.replace("```", "'''") + "\n```"]
        case Details():
            return [f"**{_plain(block.summary)}**", *_blocks(block.blocks)]


def _notice(notice: Notice) -> str:
    return f"> **{notice.kind.capitalize()}.** {_plain(notice.text)}"


def _card(card: Card) -> str:
    what = f" ({_plain(card.what)})" if card.what else ""
    text = f"- **{_plain(card.label)}{what}: {_cell(card.number)}**"
    if card.low and card.high:
        text += f" [{_cell(card.low)}, {_cell(card.high)}]"
    if card.fraction:
        above, below, unit = card.fraction
        text += f", {_cell(above)} of {_cell(below)} {unit}"
    return text + (f". {_plain(card.note)}" if card.note else "")


def _table(table: Table) -> str:
    if not table.rows:
        return ""
    numeric = [
        all(isinstance(row[i], Number) for row in table.rows) for i in range(len(table.columns))
    ]
    lines = [
        "| " + " | ".join(map(_plain, table.columns)) + " |",
        "|" + "|".join("---:" if n else "---" for n in numeric) + "|",
        *("| " + " | ".join(map(_cell, row)) + " |" for row in table.rows[:MOST_ROWS]),
    ]
    if (more := len(table.rows) - MOST_ROWS) > 0:
        lines.append(f"\n{more} more rows are in summary.json.")
    return "\n".join(lines)


def _cell(cell: Cell) -> str:
    return _plain(cell.text if isinstance(cell, Number) else cell)


def _plain(text: str) -> str:
    """Text that is not ours cannot become markup or another row."""
    shown = " ".join(text.split()).replace("\\", "\\\\")
    for mark in "|<>`*[]":
        shown = shown.replace(mark, f"\\{mark}")
    return shown
