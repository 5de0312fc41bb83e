"""The learner: steps, tokens, phases."""

from envfarm_watch.boards.process import process_row
from envfarm_watch.expressions import highest, mean, rate
from envfarm_watch.panel import Board, Panel, Query, Row

STEPS = Row(
    title="Updates",
    panels=(
        Panel(
            title="Seconds of an update, by phase",
            question="Mean over the window.",
            unit="seconds",
            kind="stacked",
            queries=(Query(mean("step_seconds", "phase"), "{{phase}}"),),
        ),
        Panel(
            title="What it does now",
            question="The phase that it is in, also before that phase ends; nothing while it loads.",
            unit="share",
            kind="stacked",
            queries=(Query("avg by (phase) (envfarm_learner_phase)", "{{phase}}"),),
        ),
        Panel(
            title="Trained tokens a second",
            question="Sampled tokens that took part in a step, over wall time.",
            unit="tokens/s",
            queries=(Query(rate("trained_tokens_total"), "trained"),),
        ),
        Panel(
            title="Tokens that taught nothing",
            question="Tokens of taken groups that no step looked at, by reason: prompts, rollouts"
            " masked for their length, batches without a signal.",
            unit="tokens/s",
            width=12,
            kind="stacked",
            queries=(Query(rate("untrained_tokens_total", "reason"), "{{reason}}"),),
        ),
        Panel(
            title="Published version",
            question="Raised at each publication.",
            unit="version",
            width=12,
            queries=(Query(highest("learner_version"), "version"),),
        ),
    ),
)

BOARD = Board(
    uid="envfarm-learner",
    title="envfarm · learner",
    question="What does an update cost, and does it come?",
    rows=(STEPS, process_row("learner")),
)
