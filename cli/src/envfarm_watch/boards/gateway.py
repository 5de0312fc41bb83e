"""The gateway: attempts by status, groups by outcome, versions."""

from envfarm_watch.boards.process import process_row
from envfarm_watch.expressions import highest, rate, total
from envfarm_watch.panel import Board, Panel, Query, Row

ATTEMPTS = Row(
    title="Attempts and groups",
    panels=(
        Panel(
            title="Attempts ended, by status",
            question="completed and truncated_* have a reward; the others are ours.",
            unit="episodes/s",
            kind="stacked",
            queries=(Query(rate("rollouts_total", "status"), "{{status}}"),),
        ),
        Panel(
            title="Running attempts",
            question="All stages together; the time board shows each.",
            unit="attempts",
            queries=(Query(total("rollouts_running"), "running"),),
        ),
        Panel(
            title="Version in service",
            question="A step at each publication; a flat line while the learner steps is trouble.",
            unit="version",
            queries=(Query(highest("policy_version"), "version"),),
        ),
    ),
)

SEATS = Row(
    title="Seats, users, slips",
    panels=(
        Panel(
            title="Seats for attempts",
            question="Allowed by the engines' pressure, held, and waited for: all held and many"
            " waited for means that more engines would help.",
            unit="attempts",
            queries=(Query(total("seats", "state"), "{{state}}"),),
        ),
        Panel(
            title="Tokens of simulated users",
            question="What the users' model reads and writes, beside the policy's own tokens.",
            unit="tokens/s",
            queries=(Query(rate("user_tokens_total"), "user model"),),
        ),
        Panel(
            title="Calls inside the reasoning",
            question="Tool calls that the policy only thought of: they are not run.",
            unit="requests/s",
            queries=(Query(rate("calls_in_reasoning_total"), "calls"),),
        ),
    ),
)

BOARD = Board(
    uid="envfarm-gateway",
    title="envfarm · rollout-gateway",
    question="How do attempts end, and which weights do they sample with?",
    rows=(ATTEMPTS, SEATS, process_row("rollout-gateway")),
)
