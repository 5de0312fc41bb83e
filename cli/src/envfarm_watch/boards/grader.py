"""Verdicts: how many, how fast, and why attempts fail."""

from envfarm_watch.boards.process import process_row
from envfarm_watch.expressions import quantile, rate
from envfarm_watch.panel import Board, Panel, Query, Row

VERDICTS = Row(
    title="Verdicts",
    panels=(
        Panel(
            title="Verdicts a second",
            question="By reward; ungradable ones have none, and their attempts run again.",
            unit="requests/s",
            kind="stacked",
            queries=(Query(rate("verdicts_total", "status", "reward"), "{{status}} {{reward}}"),),
        ),
        Panel(
            title="Failed checks a second, by kind",
            question="What graded attempts fall over.",
            unit="requests/s",
            kind="stacked",
            queries=(Query(rate("checks_total", "kind", where='passed="false"'), "{{kind}}"),),
        ),
        Panel(
            title="Time to a verdict",
            question="By input: an episode's evidence, a database, or tables as JSON.",
            unit="seconds",
            queries=(
                Query(quantile(0.5, "grade_seconds", "input"), "{{input}} p50"),
                Query(quantile(0.99, "grade_seconds", "input"), "{{input}} p99"),
            ),
        ),
    ),
)

BOARD = Board(
    uid="envfarm-grader",
    title="envfarm · grader",
    question="What do verdicts cost, and what do attempts fail at?",
    rows=(VERDICTS, process_row("grader")),
)
