"""Boards as pictures, drawn from the queries that Grafana would ask."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from matplotlib.axes import Axes
from matplotlib.dates import DateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from envfarm_watch.panel import Board, Panel, Query

COLUMNS = 24
PANEL_INCHES = (5.0, 2.9)
"""Of a panel that is a third of a row wide."""
TITLE_INCHES, LABEL_INCHES, HEAD_INCHES, FOOT_INCHES = 0.5, 0.65, 0.3, 0.7
"""Under a panel stand its times and its legend."""
FEW, MAX_LEGEND, LEGEND_WIDTH = 4, 8, 90
"""So many series have their name under a panel a third of a row wide, and so many letters a line."""
DAY_SECONDS = 86400
TICK_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200)
MAX_TICKS = 6


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
        bottom = height - TITLE_INCHES - PANEL_INCHES[1] * (number + 1) + FOOT_INCHES
        for panel in panels:
            left = width * column / COLUMNS + LABEL_INCHES
            wide = width * panel.width / COLUMNS - LABEL_INCHES - 0.15
            high = PANEL_INCHES[1] - HEAD_INCHES - FOOT_INCHES
            inches = (left / width, bottom / height, wide / width, high / height)
            axes = figure.add_axes(inches)
            _panel(axes, panel, ask)
            _time_axis(axes, start, end)
            column += panel.width
    figure.savefig(path, dpi=80)


def legend(query: Query, labels: Mapping[str, str]) -> str:
    """`{{stage}}` in a legend is the label's value, or nothing where the series has no such label."""
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), query.legend).strip()


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
        axes.set_ylim(0, 1.05 * axes.dataLim.ymax if axes.dataLim.ymax > 0 else 1)
    _name(axes, panel, {name: max(values) for name, _, values in drawn})


def _name(axes: Axes, panel: Panel, peaks: Mapping[str, float]) -> None:
    """A legend of the highest series, in their order, under the times; of many none that is zero."""
    most = MAX_LEGEND * panel.width // 8
    seen = [name for name, peak in peaks.items() if peak or len(peaks) <= FEW] or [*peaks]
    named = set(sorted(seen, key=lambda name: -peaks[name])[:most])
    known = [
        (handle, name)
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
        if name in named
    ]
    if not known:
        return
    title = f"and {len(seen) - len(named)} lower" if len(seen) > len(named) else None
    widest = max(len(name) for name in named) + 6
    axes.legend(
        *zip(*known, strict=True),
        title=title,
        title_fontsize=6,
        fontsize=6,
        loc="upper left",
        bbox_to_anchor=(-0.02, -0.1),
        frameon=False,
        ncols=max(1, min(4 * panel.width // 8, LEGEND_WIDTH * panel.width // 8 // widest)),
        columnspacing=1,
        labelspacing=0.2,
    )


def _time_axis(axes: Axes, start: float, end: float) -> None:
    """A few round times, with their seconds where they are less than a minute apart."""
    axes.set_xlim(*_dates([start, end]))
    days = DAY_SECONDS * math.ceil((end - start) / DAY_SECONDS / MAX_TICKS)
    step = next((s for s in TICK_SECONDS if (end - start) / s <= MAX_TICKS), days)
    axes.set_xticks(_dates([step * n for n in range(math.ceil(start / step), int(end / step) + 1)]))
    shown = "%d %b" if step >= DAY_SECONDS else "%H:%M" if step >= 60 else "%H:%M:%S"
    axes.xaxis.set_major_formatter(DateFormatter(shown, tz=UTC))


def _stack(axes: Axes, drawn: Sequence[tuple[str, list[float], list[float]]]) -> None:
    """Series over one another; one without a sample is at zero there."""
    times = sorted({at for _, ats, _ in drawn for at in ats})
    step = min((after - at for at, after in pairwise(times)), default=0.0)
    holes = [(at, after) for at, after in pairwise(times) if after - at > 1.5 * step]
    times = sorted({*times, *(t for at, after in holes for t in (at + step, after - step))})
    rows = []
    for _, ats, values in drawn:
        known = dict(zip(ats, values, strict=True))
        rows.append([known.get(at, 0.0) for at in times])
    axes.stackplot(_dates(times), rows, labels=[name for name, _, _ in drawn], alpha=0.7)


def _dates(times: Sequence[float]) -> list[Any]:
    return [datetime.fromtimestamp(at, UTC) for at in times]
