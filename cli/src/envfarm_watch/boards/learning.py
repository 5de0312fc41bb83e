"""Learning, honestly: is the policy better, or do the figures only look so?"""

from envfarm_watch.expressions import highest, part_of, rate
from envfarm_watch.panel import Board, Panel, Query, Row

SIGNAL = Row(
    title="Signal",
    panels=(
        Panel(
            title="Reward of the batch",
            question="Mean reward of the groups in the last step. Groups without contrast were"
            " replaced before, so this is no pass rate: compare checkpoints by evaluations.",
            unit="reward",
            queries=(Query(highest("reward_mean"), "mean reward"),),
        ),
        Panel(
            title="Groups without contrast",
            question="Share of zero-variance groups in the last batch, and the gateway's share of"
            " groups that it threw away for it.",
            unit="share",
            queries=(
                Query(highest("zero_variance_share"), "in the batch"),
                Query(
                    part_of(
                        rate("groups_total", where='outcome="zero_variance"'), rate("groups_total")
                    ),
                    "thrown away",
                ),
            ),
        ),
        Panel(
            title="Pass shares of graded attempts, by domain",
            question="Share of graded attempts with reward 1, whatever they were run for.",
            unit="share",
            queries=(
                Query(
                    part_of(
                        rate("verdicts_total", "domain", where='reward="1"'),
                        rate("verdicts_total", "domain", where='status="graded"'),
                    ),
                    "{{domain}}",
                ),
            ),
        ),
    ),
)

TRUST = Row(
    title="Trust",
    panels=(
        Panel(
            title="Engine against learner",
            question="Largest difference of log-probabilities for equal tokens and weights: over"
            " the batch, and over the probe prompt after a publication. Training stops past its"
            " tolerance.",
            unit="nats",
            queries=(
                Query(highest("mismatch_gap"), "batch"),
                Query(highest("probe_logprob_gap"), "probe"),
            ),
        ),
        Panel(
            title="Versions: in service, trained",
            question="What the engines sample with and what the learner last published; the"
            " distance is staleness to come.",
            unit="version",
            queries=(
                Query(highest("policy_version"), "in service"),
                Query(highest("learner_version"), "published"),
            ),
        ),
        Panel(
            title="Taken groups, by fate",
            question="Trained is the good one; stale and abandoned groups were sampled for nothing;"
            " bad ones are in the dead-letter list.",
            unit="groups/s",
            kind="stacked",
            queries=(Query(rate("groups_taken_total", "fate"), "{{fate}}"),),
        ),
        Panel(
            title="Excused attempts, by status",
            question="Share of attempts that ended without a reward. Where it differs between tasks"
            " or checkpoints, comparisons lean: see `envfarm attempts audit`.",
            unit="share",
            queries=(
                Query(
                    f"{rate('samples_refilled_total', 'status')} / on () group_left"
                    f" {rate('rollouts_total')}",
                    "{{status}}",
                ),
            ),
        ),
        Panel(
            title="Gradient norm",
            question="Before clipping, of the last step.",
            unit="norm",
            queries=(Query(highest("grad_norm"), "norm"),),
        ),
        Panel(
            title="Clipped tokens",
            question="Share of trained tokens whose ratio was clipped. Near zero with one step per"
            " batch; growth means stale or mismatched samples.",
            unit="share",
            queries=(Query(highest("clip_share"), "clipped"),),
        ),
    ),
)

BOARD = Board(
    uid="envfarm-learning",
    title="envfarm · learning, honestly",
    question="Is there something to learn from, and are the engine's numbers the learner's?",
    rows=(SIGNAL, TRUST),
)
