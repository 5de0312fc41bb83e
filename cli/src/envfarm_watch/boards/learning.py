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
            width=6,
            queries=(Query(highest("reward_mean"), "mean reward"),),
        ),
        Panel(
            title="Groups without contrast",
            question="Share of zero-variance groups in the last batch, and the gateway's share of"
            " groups that it threw away for it.",
            unit="share",
            width=6,
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
            width=6,
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
        Panel(
            title="Last evaluation",
            question="Share of its tasks passed at every attempt (always) and at one at least"
            " (ever), and their mean pass share. Reports have the intervals; this has none.",
            unit="share",
            width=6,
            queries=(Query(highest("evaluation_share", "passed"), "{{passed}}"),),
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
            width=6,
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
            width=6,
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
            width=6,
            kind="stacked",
            queries=(Query(rate("groups_taken_total", "fate"), "{{fate}}"),),
        ),
        Panel(
            title="Excused attempts, by status",
            question="Share of attempts that ended without a reward. Where it differs between tasks"
            " or checkpoints, comparisons lean: see `envfarm attempts audit`.",
            unit="share",
            width=6,
            queries=(
                Query(
                    f"{rate('samples_refilled_total', 'status')} / on () group_left"
                    f" {rate('rollouts_total')}",
                    "{{status}}",
                ),
            ),
        ),
        Panel(
            title="Distance of engine and learner",
            question="KL of the engine's policy to the learner's on the tokens of the last batch,"
            " staleness included. Growth means that samples come from a policy that is gone.",
            unit="nats",
            width=6,
            queries=(Query(highest("mismatch_kl"), "k3 estimate"),),
        ),
        Panel(
            title="Probability ratios",
            question="Quantiles of learner to engine probability over the last batch; far from one"
            " the clip decides.",
            unit="ratio",
            width=6,
            queries=(Query(highest("ratio", "quantile"), "{{quantile}}"),),
        ),
        Panel(
            title="Entropy of the policy",
            question="Mean over the sampled tokens of the last batch. A collapse ends exploration.",
            unit="nats",
            width=6,
            queries=(Query(highest("policy_entropy"), "entropy"),),
        ),
        Panel(
            title="Spread of advantages",
            question="Standard deviation over the last batch; near zero there is nothing to learn"
            " from.",
            unit="reward",
            width=6,
            queries=(Query(highest("advantage_spread"), "spread"),),
        ),
        Panel(
            title="Staleness of the batch",
            question="Versions between the learner's and the oldest that sampled a token of it.",
            unit="versions",
            queries=(Query(highest("staleness_max"), "oldest"),),
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
