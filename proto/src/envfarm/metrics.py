"""The metric registry: every instrument of every process, with type, unit, labels, owner, meaning.

A service builds its instruments from here and cannot make one that is not listed. Labels have few
values (domain, status, reason); ids are never labels. The unit stands in the name.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
Owner = Literal["env-server", "grader", "rollout-gateway", "learner"]


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: Kind
    unit: str
    owner: Owner
    labels: tuple[str, ...]
    meaning: str


METRICS: tuple[Metric, ...] = (
    Metric(
        "envfarm_episodes_opened_total",
        "counter",
        "episodes",
        "env-server",
        ("world",),
        "Episodes handed out.",
    ),
    Metric(
        "envfarm_episodes_ended_total",
        "counter",
        "episodes",
        "env-server",
        ("world", "end"),
        "Episodes ended, by end: closed, lease_expired, failed.",
    ),
    Metric(
        "envfarm_episodes_live",
        "gauge",
        "episodes",
        "env-server",
        ("world",),
        "Episodes that are open or sealed now.",
    ),
    Metric(
        "envfarm_slots_ready",
        "gauge",
        "slots",
        "env-server",
        ("world",),
        "Clones ready to hand out.",
    ),
    Metric(
        "envfarm_slots_leaked_total",
        "counter",
        "slots",
        "env-server",
        (),
        "Databases that a sweep found without an owner and dropped.",
    ),
    Metric(
        "envfarm_open_seconds",
        "histogram",
        "seconds",
        "env-server",
        ("world", "source"),
        "Time to open an episode, by source of its slot: ready, reused or cold.",
    ),
    Metric(
        "envfarm_clone_seconds",
        "histogram",
        "seconds",
        "env-server",
        ("world",),
        "Time to clone a template.",
    ),
    Metric(
        "envfarm_tool_seconds",
        "histogram",
        "seconds",
        "env-server",
        ("world", "tool", "outcome"),
        "Time inside a tool call, by outcome: ok, refused, failed.",
    ),
    Metric(
        "envfarm_seal_seconds",
        "histogram",
        "seconds",
        "env-server",
        ("world",),
        "Time to stop calls and fix the evidence.",
    ),
    Metric(
        "envfarm_evidence_total",
        "counter",
        "episodes",
        "env-server",
        ("world", "source"),
        "Sealed episodes, by source of their evidence: journal, whole_tables.",
    ),
    Metric(
        "envfarm_slot_returns_total",
        "counter",
        "slots",
        "env-server",
        ("world", "outcome"),
        "Slots given back: reused (undone and verified), doubt, worn, not_reused.",
    ),
    Metric(
        "envfarm_reset_seconds",
        "histogram",
        "seconds",
        "env-server",
        ("world",),
        "Time to undo an episode in its slot and to verify that.",
    ),
    Metric(
        "envfarm_open_refusals_total",
        "counter",
        "requests",
        "env-server",
        ("reason",),
        "Opens refused, by reason.",
    ),
    Metric(
        "envfarm_verdicts_total",
        "counter",
        "verdicts",
        "grader",
        ("domain", "status", "reward"),
        "Verdicts, by status; reward is 1, 0 or none.",
    ),
    Metric(
        "envfarm_checks_total",
        "counter",
        "checks",
        "grader",
        ("kind", "passed"),
        "Single checks that ran.",
    ),
    Metric(
        "envfarm_grade_seconds",
        "histogram",
        "seconds",
        "grader",
        ("input",),
        "Time to a verdict, by input: episode, dsn or state.",
    ),
    Metric(
        "envfarm_rollouts_total",
        "counter",
        "rollouts",
        "rollout-gateway",
        ("domain", "status"),
        "Rollout attempts ended, by status.",
    ),
    Metric(
        "envfarm_rollouts_running",
        "gauge",
        "rollouts",
        "rollout-gateway",
        ("stage",),
        "Rollouts now in a stage: open, generate, tool, grade, publish.",
    ),
    Metric(
        "envfarm_rollout_seconds",
        "histogram",
        "seconds",
        "rollout-gateway",
        ("stage",),
        "Seconds of one attempt spent in a stage.",
    ),
    Metric(
        "envfarm_samples_refilled_total",
        "counter",
        "rollouts",
        "rollout-gateway",
        ("status",),
        "Attempts without reward that were run again.",
    ),
    Metric(
        "envfarm_groups_total",
        "counter",
        "groups",
        "rollout-gateway",
        ("outcome",),
        "Groups ended: published, recorded, or cancelled with its reason.",
    ),
    Metric(
        "envfarm_sampled_tokens_total",
        "counter",
        "tokens",
        "rollout-gateway",
        (),
        "Tokens sampled by the policy.",
    ),
    Metric(
        "envfarm_undelivered_groups",
        "gauge",
        "groups",
        "rollout-gateway",
        (),
        "Published groups that no learner has taken yet.",
    ),
    Metric(
        "envfarm_policy_version",
        "gauge",
        "version",
        "rollout-gateway",
        (),
        "Policy version number in service.",
    ),
    Metric(
        "envfarm_probe_logprob_gap",
        "gauge",
        "nats",
        "rollout-gateway",
        (),
        "Largest |engine - learner| log-probability over the last probe prompt.",
    ),
    Metric(
        "envfarm_policy_publish_seconds",
        "histogram",
        "seconds",
        "rollout-gateway",
        (),
        "Pause, reload, probe and resume of all engines.",
    ),
    Metric(
        "envfarm_groups_taken_total",
        "counter",
        "groups",
        "learner",
        ("fate",),
        "Groups taken from the stream, by fate: trained, duplicate, stale, abandoned_policy, bad.",
    ),
    Metric(
        "envfarm_learner_version",
        "gauge",
        "version",
        "learner",
        (),
        "Policy version number of the last publication.",
    ),
    Metric(
        "envfarm_step_seconds",
        "histogram",
        "seconds",
        "learner",
        ("phase",),
        "Seconds of one update, by phase: wait, forward_backward, optimizer, checkpoint, publish.",
    ),
    Metric(
        "envfarm_trained_tokens_total",
        "counter",
        "tokens",
        "learner",
        (),
        "Sampled tokens that took part in an optimizer step.",
    ),
    Metric(
        "envfarm_reward_mean",
        "gauge",
        "reward",
        "learner",
        (),
        "Mean reward of the last batch.",
    ),
    Metric(
        "envfarm_zero_variance_share",
        "gauge",
        "share",
        "learner",
        (),
        "Share of groups in the last batch whose rewards were all equal.",
    ),
    Metric(
        "envfarm_mismatch_gap",
        "gauge",
        "nats",
        "learner",
        (),
        "Largest |engine - learner| log-probability over the last batch, before its step.",
    ),
    Metric(
        "envfarm_clip_share",
        "gauge",
        "share",
        "learner",
        (),
        "Share of trained tokens whose ratio was clipped in the last batch.",
    ),
    Metric(
        "envfarm_grad_norm",
        "gauge",
        "norm",
        "learner",
        (),
        "Gradient norm before clipping in the last step.",
    ),
)

BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}
