"""Boards as pictures, drawn from the queries that Grafana would ask."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, DateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from envfarm_watch.panel import Board, Panel, Query

COLUMNS = 24
PANEL_INCHES = (5.0, 2.7)
"""Of a panel that is a third of a row wide."""
TITLE_INCHES, LABEL_INCHES, LEGEND_INCHES = 0.5, 0.65, 0.3
MAX_LEGEND = 8
SHORT_SECONDS = 600
"""Below it the seconds stand at the axis, too."""


class Line(Protocol):
    """One series: Unix seconds, values, and the labels that its legend may name."""

    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def times(self) -> list[float]: ...
    @property
    def values(self) -> list[float]: ...


Ask = Callable[[Query], Sequence[Line]]


def draw(board: Board, ask: Ask, path: Path, start: float, end: float) -> None:
    """Write the board of that time (Unix seconds) to `path`; its ending chooses the kind of picture."""
    lines = [line for row in board.rows for line in _lines(row.panels)]
    width, height = 3 * PANEL_INCHES[0], PANEL_INCHES[1] * len(lines) + TITLE_INCHES
    figure = Figure(figsize=(width, height))
    figure.text(0.02, 1 - 0.3 / height, f"{board.title}: {board.question}", fontsize=11)
    # Placed by hand, since matplotlib's own layouts take seconds for a board.
    for number, panels in enumerate(lines):
        column = 0
        bottom = height - TITLE_INCHES - PANEL_INCHES[1] * (number + 1) + LEGEND_INCHES
        for panel in panels:
            left = width * column / COLUMNS + LABEL_INCHES
            wide = width * panel.width / COLUMNS - LABEL_INCHES - 0.15
            high = PANEL_INCHES[1] - LEGEND_INCHES - 0.35
            inches = (left / width, bottom / height, wide / width, high / height)
            axes = figure.add_axes(inches)
            _panel(axes, panel, ask)
            axes.set_xlim(*_dates([start, end]))
            shown = "%H:%M:%S" if end - start < SHORT_SECONDS else "%H:%M"
            axes.xaxis.set_major_locator(AutoDateLocator(minticks=3, maxticks=6))
            axes.xaxis.set_major_formatter(DateFormatter(shown, tz=UTC))
            column += panel.width
    figure.savefig(path, dpi=80)


def legend(query: Query, labels: Mapping[str, str]) -> str:
    """`{{stage}}` in a legend is the label's value."""
    text = query.legend
    for name, value in labels.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def with_gaps(times: Sequence[float], values: Sequence[float]) -> tuple[list[float], list[float]]:
    """The line with a NaN wherever samples are missing: nothing was known there."""
    ats, broken = list(times[:1]), list(values[:1])
    step = min((after - at for at, after in pairwise(times)), default=0.0)
    for (before, at), value in zip(pairwise(times), values[1:], strict=True):
        if at - before > 1.5 * step:
            ats.append(before + step)
            broken.append(math.nan)
        ats.append(at)
        broken.append(value)
    return ats, broken


def _lines(panels: Sequence[Panel]) -> list[list[Panel]]:
    """Panels of a row, as many to a line as fit."""
    lines: list[list[Panel]] = [[]]
    for panel in panels:
        if sum(one.width for one in lines[-1]) + panel.width > COLUMNS:
            lines.append([])
        lines[-1].append(panel)
    return lines


def _panel(axes: Axes, panel: Panel, ask: Ask) -> None:
    axes.set_title(panel.title, fontsize=9, loc="left")
    axes.set_ylabel(panel.unit, fontsize=7)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.3)
    if panel.unit == "bytes":
        axes.yaxis.set_major_formatter(EngFormatter())
    drawn = [
        (legend(query, line.labels), line.times, line.values)
        for query in panel.queries
        for line in ask(query)
    ]
    if not drawn:
        axes.text(0.5, 0.5, "no data", ha="center", va="center", transform=axes.transAxes)
        return
    if panel.kind == "stacked":
        _stack(axes, drawn)
    else:
        for name, times, values in drawn:
            ats, broken = with_gaps(times, values)
            axes.plot(_dates(ats), broken, label=name, linewidth=1.2, marker=".", markersize=2)
    if min(value for _, _, values in drawn for value in values) >= 0:
        highest = axes.get_ylim()[1]
        axes.set_ylim(0, highest if highest > axes.dataLim.ymax > 0 else 1)
    if len(drawn) <= MAX_LEGEND:
        axes.legend(fontsize=6, loc="upper left", framealpha=0.6)


def _stack(axes: Axes, drawn: Sequence[tuple[str, list[float], list[float]]]) -> None:
    """Series over one another, each from its first sample on."""
    times = sorted({at for _, ats, _ in drawn for at in ats})
    rows = []
    for _, ats, values in drawn:
        known = dict(zip(ats, values, strict=True))
        rows.append([known.get(at, 0.0) for at in times])
    axes.stackplot(_dates(times), rows, labels=[name for name, _, _ in drawn], alpha=0.7)


def _dates(times: Sequence[float]) -> list[Any]:
    return [datetime.fromtimestamp(at, UTC) for at in times]
