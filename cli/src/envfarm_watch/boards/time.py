"""Where the seconds go, from an attempt's first to the learner's last."""

from envfarm_watch.expressions import quantile, rate
from envfarm_watch.panel import Board, Panel, Query, Row

ATTEMPT = Row(
    title="An attempt",
    panels=(
        Panel(
            title="Where an attempt's seconds go",
            question="Attempt-seconds spent in each stage, a second: the tallest band is where"
            " attempts live.",
            unit="attempts",
            kind="stacked",
            width=16,
            queries=(Query(rate("rollout_seconds_sum", "stage"), "{{stage}}"),),
        ),
        Panel(
            title="Stages, 99th percentile",
            question="The slow end of each stage.",
            unit="seconds",
            queries=(Query(quantile(0.99, "rollout_seconds", "stage"), "{{stage}}"),),
        ),
        Panel(
            title="Tool calls, by world",
            question="Inside the env-server; the slow end belongs to one tool: see its board.",
            unit="seconds",
            queries=(
                Query(quantile(0.5, "tool_seconds", "world"), "{{world}} p50"),
                Query(quantile(0.99, "tool_seconds", "world"), "{{world}} p99"),
            ),
        ),
        Panel(
            title="Sealing",
            question="Stopping calls and fixing the evidence.",
            unit="seconds",
            queries=(
                Query(quantile(0.5, "seal_seconds"), "p50"),
                Query(quantile(0.99, "seal_seconds"), "p99"),
            ),
        ),
        Panel(
            title="Grading, by input",
            question="From the request to the verdict.",
            unit="seconds",
            queries=(
                Query(quantile(0.5, "grade_seconds", "input"), "{{input}} p50"),
                Query(quantile(0.99, "grade_seconds", "input"), "{{input}} p99"),
            ),
        ),
    ),
)

UPDATE = Row(
    title="An update",
    panels=(
        Panel(
            title="Where the learner's seconds go",
            question="Seconds a second by phase; the sum is one while it runs.",
            unit="share",
            kind="stacked",
            width=16,
            queries=(Query(rate("step_seconds_sum", "phase"), "{{phase}}"),),
        ),
        Panel(
            title="Putting weights into service",
            question="Pause, reload, probe and resume of all engines: seconds without sampling.",
            unit="seconds",
            queries=(
                Query(quantile(0.5, "policy_publish_seconds"), "p50"),
                Query(quantile(0.99, "policy_publish_seconds"), "p99"),
            ),
        ),
    ),
)

BOARD = Board(
    uid="envfarm-time",
    title="envfarm · time",
    question="Where do an attempt's and an update's seconds go?",
    rows=(ATTEMPT, UPDATE),
)
