"""Which tasks to train on: a pure function from probed counts and task facts to a decision per task.

A task is kept when its band is retained, it has enough clean runs, a reference model can solve it and
no benchmark holds it. Every rejected task carries every reason.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from envfarm.errors import ConfigError

from envfarm_numbers import jeffreys
from envfarm_numbers.counts import CampaignCounts, TaskCounts, arrays
from envfarm_numbers.exclusion import Exclusions
from envfarm_numbers.split import stratified_split
from envfarm_numbers.task_facts import TaskFacts, families, near_duplicates

DIGITS = 6
"""Decimals of every figure in a selection's files, so that equal inputs give equal bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceGate:
    """What a stronger model must have shown on a task, so that it can be solved at all."""

    minimum_clean: int = 1
    minimum_passed: int = 1
    rate_above: float | None = None
    """With `probability`: the posterior probability that its pass rate is above this."""
    probability: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Everything that decides besides the data; written into the manifest."""

    bands: tuple[str, ...] = ("hard", "medium", "easy")
    minimum_clean: int = 3
    validation_share: float = 0.2
    seed: int = 42
    group_size: int = 8
    gate: ReferenceGate | None = None
    """Set exactly when there are rows of a reference model."""

    def check(self) -> None:
        """ConfigError that names the setting."""
        if unknown := [band for band in self.bands if band not in jeffreys.BANDS]:
            raise ConfigError(
                f"there is no band {unknown[0]!r}", hint=f"bands are: {', '.join(jeffreys.BANDS)}"
            )
        if not self.bands or len(set(self.bands)) < len(self.bands):
            raise ConfigError("the retained bands are one or more, each once")
        if self.minimum_clean < 1:
            raise ConfigError("at least one clean run is needed to know anything of a task")
        if not 0 <= self.validation_share < 1:
            raise ConfigError("the share of validation is at least 0 and below 1")
        if self.group_size < 2:
            raise ConfigError("a group has at least two attempts")
        gate = self.gate
        if gate and (gate.rate_above is None) != (gate.probability is None):
            raise ConfigError(
                "the gate's rate and its probability are given together or not at all"
            )


@dataclass(slots=True)
class Judged:
    """One candidate with all that speaks about it."""

    facts: TaskFacts
    counts: TaskCounts
    band: str
    masses: list[float]
    low: float
    high: float
    mean: float
    informative: float
    """Posterior chance that a group of G has both rewards."""
    reference: TaskCounts | None
    reasons: list[str] = field(default_factory=list)
    """Why it is rejected; empty when it is selected."""
    part: str = ""
    """train or validation, when selected."""

    @property
    def width(self) -> float:
        """Of the 95 % interval."""
        return self.high - self.low

    def to_dict(self) -> dict[str, Any]:
        """A line of tasks.jsonl."""
        reference = self.reference
        return {
            "task_id": self.facts.task_id,
            "task_hash": self.facts.task_hash,
            "world_hash": self.facts.world_hash,
            "tags": dict(sorted(self.facts.tags.items())),
            "passed": self.counts.passed,
            "clean": self.counts.clean,
            "excused": self.counts.excused,
            "band": self.band,
            "band_masses": {
                name: round(mass, DIGITS)
                for name, mass in zip(jeffreys.BANDS, self.masses, strict=True)
            },
            "mean": round(self.mean, DIGITS),
            "low": round(self.low, DIGITS),
            "high": round(self.high, DIGITS),
            "informative": round(self.informative, DIGITS),
            "reference": reference and {"passed": reference.passed, "clean": reference.clean},
            "part": self.part,
            "reasons": self.reasons,
        }


@dataclass(slots=True)
class Selection:
    """All candidates in id order, selected or not."""

    judged: list[Judged]
    settings: Settings
    duplicates: list[dict[str, Any]]

    def part(self, name: str) -> list[Judged]:
        return [task for task in self.judged if task.part == name]

    def summary(self) -> dict[str, Any]:
        """Counts, and what training on the selection may expect."""
        train = self.part("train")
        informative = float(np.mean([task.informative for task in train])) if train else 0.0
        kinds = Counter(reason.partition(":")[0] for task in self.judged for reason in task.reasons)
        per_band = Counter(task.band for task in self.judged)
        kept = Counter(task.band for task in self.judged if not task.reasons)
        return {
            "candidates": len(self.judged),
            "selected": sum(not task.reasons for task in self.judged),
            "train": len(train),
            "validation": len(self.part("validation")),
            "bands": {
                name: {"candidates": per_band[name], "selected": kept[name]}
                for name in jeffreys.BANDS
            },
            "reasons": dict(sorted(kinds.items())),
            "clean_runs": sum(task.counts.clean for task in self.judged),
            "excused_runs": sum(task.counts.excused for task in self.judged),
            "group_size": self.settings.group_size,
            "expected_informative_groups": round(informative, DIGITS),
            "attempts_per_informative_group": (
                round(self.settings.group_size / informative, DIGITS) if informative else None
            ),
        }


def select(
    policy: CampaignCounts,
    facts: Mapping[str, TaskFacts],
    settings: Settings,
    *,
    reference: CampaignCounts | None = None,
    exclusions: Exclusions | None = None,
) -> Selection:
    """ConfigError when the rows are of more than one policy, or when nothing is left.

    Tasks of the rows are the candidates; a task that only `facts` knows was not probed and is not one.
    """
    settings.check()
    if (reference is None) != (settings.gate is None):
        raise ConfigError("rows of a reference model and its gate are given together or not at all")
    one_policy(policy, "the probe's rows")
    counts = list(policy.tasks.values())
    judged = _measure(counts, settings.group_size, facts, reference)
    for task in judged:
        task.reasons += _reasons(task, facts, settings, exclusions or Exclusions())
    chosen = [task for task in judged if not task.reasons]
    if not chosen:
        kinds = Counter(reason for task in judged for reason in task.reasons)
        worst, times = kinds.most_common(1)[0]
        raise ConfigError(
            f"none of {len(judged)} tasks is left; {times} of them: {worst}",
            hint="probe more tasks, retain more bands, or ask for fewer clean runs",
        )
    strata = {
        task.facts.task_id: f"{task.facts.domain}\0{task.facts.workflow}\0{task.band}"
        for task in chosen
    }
    _, validation = stratified_split(
        families(task.facts for task in chosen), strata, settings.validation_share, settings.seed
    )
    held_out = set(validation)
    for task in chosen:
        task.part = "validation" if task.facts.task_id in held_out else "train"
    return Selection(judged, settings, near_duplicates(task.facts for task in judged))


def one_policy(campaign: CampaignCounts, what: str) -> None:
    """ConfigError when rows of different weights, sampling or interfaces are mixed."""
    for name, values in campaign.identity.items():
        if len(values) > 1:
            shown = ", ".join(sorted(value[:12] for value in values))
            raise ConfigError(
                f"{what} are of more than one {name}: {shown}",
                hint="give the rows of one campaign; a pass rate belongs to one policy",
            )


def _measure(
    counts: list[TaskCounts],
    group_size: int,
    facts: Mapping[str, TaskFacts],
    reference: CampaignCounts | None,
) -> list[Judged]:
    passed, clean = arrays(counts)
    masses = jeffreys.band_masses(passed, clean)
    named = np.argmax(masses, axis=-1)
    low, high = jeffreys.interval(passed, clean)
    mean = jeffreys.mean(passed, clean)
    informative = jeffreys.informative_probability(passed, clean, group_size)
    return [
        Judged(
            facts=facts.get(one.task_id) or _from_rows(one),
            counts=one,
            band=jeffreys.BANDS[int(named[i])],
            masses=masses[i].tolist(),
            low=float(low[i]),
            high=float(high[i]),
            mean=float(mean[i]),
            informative=float(informative[i]),
            reference=reference and reference.tasks.get(one.task_id, TaskCounts(one.task_id)),
        )
        for i, one in enumerate(counts)
    ]


def _from_rows(counts: TaskCounts) -> TaskFacts:
    return TaskFacts(
        task_id=counts.task_id, task_hash=counts.task_hash, world_hash=counts.world_hash
    )


def _reasons(
    task: Judged, facts: Mapping[str, TaskFacts], settings: Settings, exclusions: Exclusions
) -> list[str]:
    """Everything that speaks against the task."""
    counts = task.counts
    reasons = exclusions.reasons(task.facts)
    if facts and counts.task_id not in facts:
        reasons.append("unknown: no domain has this task")
    if counts.task_hash and counts.task_hash != task.facts.task_hash:
        reasons.append(
            f"changed: it was probed as {counts.task_hash[:12]}, and is {task.facts.task_hash[:12]}"
        )
    if counts.clean < settings.minimum_clean:
        reasons.append(f"too few clean runs: {counts.clean} of {settings.minimum_clean}")
    if task.band not in settings.bands:
        reasons.append(f"band not retained: {task.band}")
    if settings.gate and (missing := _gate(task.reference, settings.gate)):
        reasons.append(f"reference model: {missing}")
    return reasons


def _gate(reference: TaskCounts | None, gate: ReferenceGate) -> str:
    """What is missing; empty when the gate is open."""
    if reference is None or reference.clean < gate.minimum_clean:
        clean = reference.clean if reference else 0
        return f"{clean} of {gate.minimum_clean} clean runs"
    if reference.passed < gate.minimum_passed:
        return f"{reference.passed} of {gate.minimum_passed} passes"
    if gate.rate_above is not None and gate.probability is not None:
        found = jeffreys.probability_above(reference.passed, reference.clean, gate.rate_above)
        if found < gate.probability:
            return (
                f"its rate is above {gate.rate_above:g} with probability {found:.3f}, "
                f"not {gate.probability:g}"
            )
    return ""
