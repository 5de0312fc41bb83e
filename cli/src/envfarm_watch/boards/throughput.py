"""The first screen: how much is produced, how much of it counts, and what holds it up."""

from envfarm_watch.expressions import quantile, rate, share_of_time, total
from envfarm_watch.panel import Board, Panel, Query, Row

PRODUCED = Row(
    title="What is produced, and what becomes of it",
    panels=(
        Panel(
            title="Episodes a second",
            question="Opened, graded, taken by the learner, in an optimizer step. Graded falls"
            " behind opened when attempts fail on our side or wait for the grader; excused attempts"
            " have no reward and run again.",
            unit="episodes/s",
            queries=(
                Query(rate("episodes_opened_total"), "produced"),
                Query(rate("verdicts_total", where='status="graded"'), "graded"),
                Query(rate("taken_episodes_total"), "consumed"),
                Query(rate("trained_episodes_total"), "effective"),
                Query(rate("samples_refilled_total"), "excused, run again"),
            ),
        ),
        Panel(
            title="Groups a second",
            question="Ended in any way, published with all rewards, taken by the learner, trained."
            " Produced and graded part when groups are cancelled, graded and effective when they"
            " grow stale or repeat.",
            unit="groups/s",
            queries=(
                Query(rate("groups_total"), "produced"),
                Query(rate("groups_total", where='outcome=~"published|recorded"'), "graded"),
                Query(rate("groups_taken_total"), "consumed"),
                Query(rate("groups_taken_total", where='fate="trained"'), "effective"),
            ),
        ),
        Panel(
            title="Tokens a second",
            question="Sampled by the policy, in attempts with a reward, taken by the learner, in an"
            " optimizer step. What is lost between two of them is waste.",
            unit="tokens/s",
            queries=(
                Query(rate("sampled_tokens_total"), "produced"),
                Query(rate("graded_tokens_total"), "graded"),
                Query(rate("taken_tokens_total"), "consumed"),
                Query(rate("trained_tokens_total"), "effective"),
            ),
        ),
    ),
)

WAITING = Row(
    title="What holds it up",
    panels=(
        Panel(
            title="Attempts in flight, by stage",
            question="Where the running attempts are now. A stage that fills while the others empty"
            " is the bottleneck.",
            unit="attempts",
            width=6,
            kind="stacked",
            queries=(Query(total("rollouts_running", "stage"), "{{stage}}"),),
        ),
        Panel(
            title="Groups that no learner has taken",
            question="Published and not delivered. At its cap the gateway starts no further group;"
            " at zero the learner waits.",
            unit="groups",
            width=6,
            queries=(Query(total("undelivered_groups"), "undelivered"),),
        ),
        Panel(
            title="Queues, by what is waited for",
            question="Attempts that wait for a seat, requests that wait inside the engines, groups"
            " that wait for the learner. The queue that grows stands before the bottleneck.",
            unit="waiting",
            width=6,
            queries=(
                Query(total("seats", where='state="waited_for"'), "seat"),
                Query("sum(vllm:num_requests_waiting)", "engine"),
                Query(total("undelivered_groups"), "learner, groups"),
            ),
        ),
        Panel(
            title="Idle",
            question="Share of the learner's time spent waiting for groups, and of the engines' time"
            " without a running request. One of the two is the side to scale.",
            unit="share",
            width=6,
            queries=(
                Query(share_of_time("wait"), "learner"),
                Query(
                    "avg(avg_over_time((vllm:num_requests_running == bool 0)[$window:5s]))",
                    "engines",
                ),
            ),
        ),
    ),
)

LOST = Row(
    title="What is done again",
    panels=(
        Panel(
            title="Refills, by cause",
            question="Attempts that ended without a reward and were run again, by status: failures"
            " of ours, never of the policy.",
            unit="episodes/s",
            kind="stacked",
            queries=(Query(rate("samples_refilled_total", "status"), "{{status}}"),),
        ),
        Panel(
            title="Groups, by outcome",
            question="Published, recorded, or cancelled with its reason. Zero variance is the usual"
            " one: all eight agree, so there is nothing to learn.",
            unit="groups/s",
            kind="stacked",
            queries=(Query(rate("groups_total", "outcome"), "{{outcome}}"),),
        ),
        Panel(
            title="Seconds of an attempt",
            question="Median and 99th percentile by stage: what one attempt waits for.",
            unit="seconds",
            queries=(
                Query(quantile(0.5, "rollout_seconds", "stage"), "{{stage}} p50"),
                Query(quantile(0.99, "rollout_seconds", "stage"), "{{stage}} p99"),
            ),
        ),
    ),
)

BOARD = Board(
    uid="envfarm-throughput",
    title="envfarm · throughput",
    question="How many episodes, groups and tokens a second, how many of them count, and what is"
    " the bottleneck?",
    rows=(PRODUCED, WAITING, LOST),
)
