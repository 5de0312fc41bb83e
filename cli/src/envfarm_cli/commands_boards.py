"""`envfarm boards`: the dashboards as pictures, for people without Grafana and for reports."""

import time
from pathlib import Path
from typing import Annotated

import typer

from envfarm_cli.commands_stack import JsonOption
from envfarm_cli.failure import BadInput
from envfarm_cli.output import OK, Output, plain
from envfarm_cli.prometheus_api import Prometheus, Series
from envfarm_watch.boards import BOARDS
from envfarm_watch.panel import Query

POINTS = 240
LEAST_STEP_SECONDS = 1.0
SCRAPES_IN_A_WINDOW = 6


def boards(
    folder: Annotated[Path, typer.Argument(help="Where the pictures go, one PNG a dashboard.")],
    url: Annotated[str, typer.Option(help="The Prometheus to ask.")] = "http://127.0.0.1:9090",
    minutes: Annotated[float, typer.Option(min=0.5, help="How far back they look.")] = 30.0,
    scrape_seconds: Annotated[
        float, typer.Option(min=1, help="Its interval; rates are over six of them.")
    ] = 5.0,
    json: JsonOption = False,
) -> int:
    """Draw every dashboard from a running Prometheus, with the queries that Grafana asks.

    Example: [b]envfarm boards pictures --minutes 10[/b]
    """
    from envfarm_watch.pictures import draw  # takes a second to import

    out = Output(json)
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is no folder", hint="name another one")
    end = time.time()
    start, step = end - 60 * minutes, max(LEAST_STEP_SECONDS, 60 * minutes / POINTS)
    written = []
    with Prometheus(url) as prometheus:

        def ask(query: Query) -> list[Series]:
            window = f"{round(SCRAPES_IN_A_WINDOW * scrape_seconds)}s"
            return prometheus.range(query.expression.replace("$window", window), start, end, step)

        prometheus.firing()
        folder.mkdir(parents=True, exist_ok=True)
        for board in BOARDS:
            path = folder / f"{board.uid.removeprefix('envfarm-')}.png"
            draw(board, ask, path, start, end)
            written.append(str(path))
            out.say(plain(path))
    out.result({"ok": True, "pictures": written})
    return OK
