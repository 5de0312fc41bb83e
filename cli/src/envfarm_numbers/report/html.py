"""A document as one HTML file: styles, script and drawings inside, no request to anywhere.

A content security policy forbids every load; text that is not ours is escaped at the one place where
it becomes markup.
"""

import json
from collections.abc import Sequence
from html import escape
from importlib import resources

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
    Section,
    Table,
    Text,
)

WIDE, NARROW = 760, 340
"""Widths in pixels that each figure is drawn for."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def render(document: Document) -> str:
    """The whole page. Each number is a span with its JSON pointer in `data-path`."""
    title = escape(document.title)
    links = "".join(f'<a href="#{s.id}">{escape(s.title)}</a>' for s in document.sections)
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f'<title>{title}</title><link rel="icon" href="data:,">',
            f"<style>{_asset('page.css')}</style></head><body>",
            '<a class="skip" href="#content">Skip to the report</a>',
            f'<nav aria-label="Sections">{links}<button id="theme" type="button">theme</button></nav>',
            f'<header><h1>{title}</h1><p class="sub">{escape(document.subtitle)}</p>',
            *(_notice(notice) for notice in document.notices),
            '</header><main id="content">',
            *(_section(section) for section in document.sections),
            "</main>",
            '<footer class="foot">Every figure names its estimator and denominator; formulas are in '
            "docs/numbers.md. The same numbers are in summary.json.</footer>",
            '<div id="tip" aria-hidden="true"></div>',
            f'<script type="application/json" id="data">{_json(document)}</script>',
            f"<script>{_asset('page.js')}</script></body></html>",
            "",
        ]
    )


def _section(section: Section) -> str:
    lead = f'<p class="lead">{escape(section.lead)}</p>' if section.lead else ""
    return (
        f'<section id="{section.id}" aria-labelledby="{section.id}-title">'
        f'<h2 id="{section.id}-title">{escape(section.title)}</h2>{lead}'
        f"{_blocks(section.blocks)}</section>"
    )


def _blocks(blocks: Sequence[Block]) -> str:
    return "".join(_block(block) for block in blocks)


def _block(block: Block) -> str:
    match block:
        case Cards():
            return f'<div class="cards">{"".join(_card(card) for card in block.cards)}</div>'
        case Text():
            return f"<p>{escape(block.text)}</p>"
        case Notice():
            return _notice(block)
        case Table():
            return _table(block)
        case Figure():
            return _figure(block)
        case Lines():
            return _lines(block)
        case Details():
            name = f' id="{escape(block.id)}"' if block.id else ""
            return (
                f"<details{name}><summary>{escape(block.summary)}</summary>"
                f'<div class="in">{_blocks(block.blocks)}</div></details>'
            )


def _notice(notice: Notice) -> str:
    return f'<p class="notice {notice.kind}" role="note">{escape(notice.text)}</p>'


def _card(card: Card) -> str:
    what = f'<div class="what">{escape(card.what)}</div>' if card.what else ""
    parts = [
        f'<div class="label">{escape(card.label)}</div>{what}',
        f'<div class="figure">{_cell(card.number)}</div>',
    ]
    if card.low and card.high:
        parts.append(f'<div class="interval">{_cell(card.low)} to {_cell(card.high)}</div>')
    if card.fraction:
        above, below, unit = card.fraction
        parts.append(f'<div class="of">{_cell(above)} of {_cell(below)} {escape(unit)}</div>')
    if card.note:
        parts.append(f'<div class="fine">{escape(card.note)}</div>')
    return f'<div class="card">{"".join(parts)}</div>'


def _figure(figure: Figure) -> str:
    legend = "".join(
        f'<li><svg viewBox="0 0 12 12" aria-hidden="true"><circle class="{kind}" cx="6" cy="6" r="5"/>'
        f"</svg>{escape(label)}</li>"
        for kind, label in figure.legend
    )
    return (
        f'<figure id="{figure.id}"><h3>{escape(figure.title)}</h3>'
        f"<figcaption>{escape(figure.caption)}</figcaption>"
        + (f'<ul class="legend">{legend}</ul>' if legend else "")
        + f'<div class="wide">{figure.draw(WIDE)}</div>'
        f'<div class="narrow">{figure.draw(NARROW)}</div>'
        f'<details><summary>The same as a table</summary><div class="in">{_table(figure.table)}'
        "</div></details></figure>"
    )


def _table(table: Table) -> str:
    numeric = [
        bool(table.rows) and all(isinstance(row[i], Number) for row in table.rows)
        for i in range(len(table.columns))
    ]
    head = "".join(
        f'<th scope="col"{_right(n)}><button type="button">{escape(name)}</button></th>'
        for name, n in zip(table.columns, numeric, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(_td(cell, n) for cell, n in zip(row, numeric, strict=True)) + "</tr>"
        for row in table.rows
    )
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    label = escape(table.caption or ", ".join(table.columns))
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{label}"><table>{caption}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _td(cell: Cell, numeric: bool) -> str:
    value = ""
    if numeric and isinstance(cell, Number):
        value = f' data-value="{-1 if cell.value is None else escape(str(cell.value))}"'
    return f"<td{_right(numeric)}{value}>{_cell(cell)}</td>"


def _right(numeric: bool) -> str:
    return ' class="n"' if numeric else ""


def _cell(cell: Cell) -> str:
    if isinstance(cell, Number):
        return (
            f'<span data-path="{escape(cell.path)}" data-format="{cell.format}">'
            f"{escape(cell.text)}</span>"
        )
    return escape(cell)


def _lines(block: Lines) -> str:
    lines = "".join(
        f'<div class="{kind}"><span class="who">{escape(label)}</span>'
        f'<span class="what">{escape(text)}</span></div>'
        for kind, label, text in block.lines
    )
    return f'<div class="lines">{lines}</div>'


def _json(document: Document) -> str:
    """JSON that cannot close its script element."""
    text = json.dumps(document.data, ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _asset(name: str) -> str:
    return resources.files("envfarm_numbers.report").joinpath(name).read_text()
