"""The throughput screen's figures from two scrapes, for people without Grafana."""

from dataclasses import asdict, dataclass, field
from typing import Any

from envfarm_watch.scrape import Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class Top:
    """Rates are a second over the interval; None where no process told."""

    seconds: float
    episodes_opened: float | None
    episodes_graded: float | None
    episodes_taken: float | None
    episodes_trained: float | None
    episodes_excused: float | None
    groups_ended: float | None
    groups_published: float | None
    groups_taken: float | None
    groups_trained: float | None
    tokens_sampled: float | None
    tokens_graded: float | None
    tokens_taken: float | None
    tokens_trained: float | None
    in_flight: dict[str, float] = field(default_factory=dict)
    """Attempts now, by stage."""
    learner_phase: str | None
    undelivered_groups: float | None
    live_episodes: float | None
    ready_slots: float | None
    opens_waiting: float | None
    """For a clone."""
    refused_opens: float | None
    leaked: float | None
    """Since the processes started."""
    groups_by_outcome: dict[str, float] = field(default_factory=dict)
    excused_by_status: dict[str, float] = field(default_factory=dict)
    call_seconds: float | None
    grade_seconds: float | None
    """Means over the interval."""
    reward_mean: float | None
    zero_variance_share: float | None
    mismatch_gap: float | None
    version_in_service: float | None
    version_published: float | None
    engine_running: float | None

    @classmethod
    def of(cls, interval: Interval) -> "Top":
        rate, now = interval.rate, interval.after
        phases = now.by("phase", "envfarm_learner_phase")
        stages = now.by("stage", "envfarm_rollouts_running")
        return cls(
            seconds=interval.seconds,
            episodes_opened=rate("envfarm_episodes_opened_total"),
            episodes_graded=rate("envfarm_verdicts_total", status="graded"),
            episodes_taken=rate("envfarm_taken_episodes_total"),
            episodes_trained=rate("envfarm_trained_episodes_total"),
            episodes_excused=rate("envfarm_samples_refilled_total"),
            groups_ended=rate("envfarm_groups_total"),
            groups_published=rate("envfarm_groups_total", outcome="published"),
            groups_taken=rate("envfarm_groups_taken_total"),
            groups_trained=rate("envfarm_groups_taken_total", fate="trained"),
            tokens_sampled=rate("envfarm_sampled_tokens_total"),
            tokens_graded=rate("envfarm_graded_tokens_total"),
            tokens_taken=rate("envfarm_taken_tokens_total"),
            tokens_trained=rate("envfarm_trained_tokens_total"),
            in_flight={stage: count for stage, count in stages.items() if count},
            learner_phase=max(phases, key=phases.__getitem__) if any(phases.values()) else None,
            undelivered_groups=now.total("envfarm_undelivered_groups"),
            live_episodes=now.total("envfarm_episodes_live"),
            ready_slots=now.total("envfarm_slots_ready"),
            opens_waiting=now.total("envfarm_opens_waiting"),
            refused_opens=rate("envfarm_open_refusals_total"),
            leaked=now.total("envfarm_slots_leaked_total"),
            groups_by_outcome=interval.rates_by("outcome", "envfarm_groups_total"),
            excused_by_status=interval.rates_by("status", "envfarm_samples_refilled_total"),
            call_seconds=interval.mean("envfarm_tool_seconds"),
            grade_seconds=interval.mean("envfarm_grade_seconds"),
            reward_mean=now.highest("envfarm_reward_mean"),
            zero_variance_share=now.highest("envfarm_zero_variance_share"),
            mismatch_gap=now.highest("envfarm_mismatch_gap"),
            version_in_service=now.highest("envfarm_policy_version"),
            version_published=now.highest("envfarm_learner_version"),
            engine_running=now.total("vllm:num_requests_running"),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
