"""One env-server, or all of them: what its tools and processes do."""

from envfarm_watch.boards.process import process_row
from envfarm_watch.expressions import quantile, rate
from envfarm_watch.panel import Board, Panel, Query, Row

TOOLS = Row(
    title="Tools",
    panels=(
        Panel(
            title="Calls a second, by outcome",
            question="Refused calls broke a business rule or a constraint: the policy's doing."
            " Failed ones are ours.",
            unit="requests/s",
            kind="stacked",
            queries=(Query(rate("tool_seconds_count", "outcome"), "{{outcome}}"),),
        ),
        Panel(
            title="Ten slowest tools",
            question="99th percentile of the time inside a call.",
            unit="seconds",
            width=16,
            queries=(
                Query(
                    f"topk(10, {quantile(0.99, 'tool_seconds', 'world', 'tool')})",
                    "{{world}} {{tool}}",
                ),
            ),
        ),
    ),
)

BOARD = Board(
    uid="envfarm-env-server",
    title="envfarm · env-server",
    question="What do the tools cost, and are the processes well?",
    rows=(TOOLS, process_row("env-server")),
)
