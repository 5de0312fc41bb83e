"""Boards → Grafana's JSON. `python -m envfarm_watch.grafana FOLDER [--check]`."""

import argparse
import itertools
import string
import sys
from pathlib import Path

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as models
from grafana_foundation_sdk.models.dashboard import DataSourceRef

from envfarm_watch.boards import BOARDS
from envfarm_watch.panel import Board, Panel, Unit

SOURCE = DataSourceRef(type_val="prometheus", uid="envfarm-prometheus")
"""The uid that deploy/grafana/provisioning gives the data source."""
WINDOW = "$__rate_interval"
HEIGHT = 8
GRAFANA_UNITS: dict[Unit, str] = {
    "episodes/s": "suffix: episodes/s",
    "groups/s": "suffix: groups/s",
    "tokens/s": "suffix: tokens/s",
    "requests/s": "reqps",
    "seconds": "s",
    "share": "percentunit",
    "bytes": "bytes",
    "episodes": "suffix: episodes",
    "groups": "suffix: groups",
    "slots": "suffix: slots",
    "attempts": "suffix: attempts",
    "requests": "suffix: requests",
    "waiting": "suffix: waiting",
    "databases": "suffix: databases",
    "connections": "suffix: connections",
    "processes": "suffix: processes",
    "cores": "suffix: cores",
    "files": "suffix: files",
    "nats": "suffix: nats",
    "version": "prefix:version ",
    "versions": "suffix: versions",
    "reward": "none",
    "ratio": "none",
    "norm": "none",
}
"""Every unit; `none` is Grafana's word for a number without a dimension."""


def to_json(board: Board) -> str:
    """The dashboard as Grafana reads it, keys sorted."""
    built = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.question)
        .tags(["envfarm"])
        .readonly()
        .refresh("10s")
        .time("now-30m", "now")
        .timezone("browser")
    )
    number = itertools.count(1)
    for row in board.rows:
        built = built.with_row(dashboard.Row(row.title).id(next(number)))
        for panel in row.panels:
            built = built.with_panel(_panel(panel).id(next(number)))
    return JSONEncoder(sort_keys=True, indent=1).encode(built.build()) + "\n"


def _panel(panel: Panel) -> timeseries.Panel | stat.Panel:
    if panel.kind == "number":
        drawn: timeseries.Panel | stat.Panel = stat.Panel()
    else:
        drawn = timeseries.Panel().fill_opacity(30 if panel.kind == "stacked" else 5)
        drawn = drawn.line_width(1).show_points(models.VisibilityMode.NEVER)
        drawn = drawn.tooltip(
            common.VizTooltipOptions().mode(models.TooltipDisplayMode.MULTI)
        ).legend(
            common.VizLegendOptions()
            .display_mode(models.LegendDisplayMode.TABLE)
            .placement(models.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull", "mean"])
        )
        if panel.kind == "stacked":
            drawn = drawn.stacking(
                common.StackingConfig().mode(models.StackingMode.NORMAL).group("A")
            )
    drawn = drawn.title(panel.title).description(panel.question).datasource(SOURCE)
    drawn = drawn.unit(GRAFANA_UNITS[panel.unit]).span(panel.width).height(HEIGHT)
    if panel.unit == "share":
        drawn = drawn.min(0)
    for letter, query in zip(string.ascii_uppercase, panel.queries, strict=False):
        drawn = drawn.with_target(
            prometheus.Dataquery()
            .expr(query.expression.replace("$window", WINDOW))
            .legend_format(query.legend)
            .ref_id(letter)
        )
    return drawn


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m envfarm_watch.grafana", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the dashboards")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    options = parser.parse_args(arguments)
    wanted = {f"{board.uid.removeprefix('envfarm-')}.json": to_json(board) for board in BOARDS}
    there = {path.name: path.read_text() for path in options.folder.glob("*.json")}
    if options.check:
        wrong = sorted(name for name in wanted | there if wanted.get(name) != there.get(name))
        if wrong:
            print(f"dashboards differ from their source: {', '.join(wrong)}", file=sys.stderr)
        return 1 if wrong else 0
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in there.keys() - wanted.keys():
        (options.folder / name).unlink()
    for name, text in wanted.items():
        (options.folder / name).write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
