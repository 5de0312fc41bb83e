"""Training as a campaign sees it: one stream job of the gateway, one learner, validations between.

The gateway owes `updates` × `groups_per_update` groups that the learner can use; the learner ends
after its updates. Both go on where they were after any kill, so starting this again is enough. A
validation is an ordinary evaluation job that is pinned to one version number; see validation.py.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envfarm.v1 import gateway_service_pb2, policy_pb2

from envfarm_cli.campaign.curves import read_steps
from envfarm_cli.campaign.evaluation import Plan
from envfarm_cli.campaign.farm import Farm
from envfarm_cli.campaign.narration import Meter
from envfarm_cli.campaign.validation import Validations
from envfarm_cli.children import died
from envfarm_cli.failure import Failure
from envfarm_cli.launching import HERE, Launch
from envfarm_cli.learner_config import Overrides, merge
from envfarm_numbers.suite import Suite

JobState = gateway_service_pb2.JobState
DRAIN_SECONDS = 60
PATIENCE_SECONDS = 86400


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """What is measured while training goes on."""

    suite: Suite
    k: int
    every: int
    """Versions between two validations; version 0 and the last one are always measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainPlan:
    """One training run."""

    run_id: str
    tasks: list[str]
    updates: int
    groups_per_update: int
    group_size: int
    staleness: int
    seed: int
    recipe: Path
    """The learner's configuration that `overrides` changes."""
    overrides: Overrides = field(default_factory=dict)
    max_replacements: int | None = None
    """Groups of equal rewards replaced per update; None takes the gateway's default."""
    reband_after: int = 0
    """Attempts after which a task's band is looked at again; 0 keeps the pool fixed."""
    updates_per_version: int = 1
    validation: Validation | None = None
    launch: Launch = HERE

    @property
    def last_version(self) -> int:
        return self.updates // self.updates_per_version

    def learner_overrides(self, folder: Path) -> Overrides:
        """Everything that job and learner must agree on."""
        # An announcement waits while a validation keeps the version before it in service.
        patience: Overrides = (
            {"gateway": {"give_up_seconds": PATIENCE_SECONDS}} if self.validation else {}
        )
        return merge(
            merge(patience, self.overrides),
            {
                "run": {"id": self.run_id, "dir": str(folder), "updates": self.updates},
                "batch": {
                    "group_size": self.group_size,
                    "groups_per_update": self.groups_per_update,
                },
                "admission": {"staleness": self.staleness},
                "publish": {"every": self.updates_per_version},
            },
        )

    def job(self) -> gateway_service_pb2.SubmitJobRequest:
        return gateway_service_pb2.SubmitJobRequest(
            job_id=f"{self.run_id}.train",
            run_id=self.run_id,
            task_ids=self.tasks,
            group_size=self.group_size,
            kind=gateway_service_pb2.JOB_KIND_TRAIN,
            publish=True,
            seed=self.seed,
            staleness=self.staleness,
            groups_per_update=self.groups_per_update,
            updates=self.updates,
            updates_per_version=self.updates_per_version,
            max_replacements=self.max_replacements,
            reband_after=self.reband_after,
        )


Begun = Callable[[policy_pb2.PolicyVersion], None]


def train(
    plan: TrainPlan,
    farm: Farm,
    folder: Path,
    meter: Meter,
    begun: Begun = lambda version: None,
) -> dict[str, Any]:
    """Train to the end; the job's counts and the version in service then.

    `begun` is called once, with the first version of the run that is seen in service.

    ChildFailed when a process dies: everything that was done is kept, and the same call goes on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run_dir = folder / "learner"
    validations = _validations(plan, farm, folder)
    learner = farm.start_learner(
        folder / "learner.toml",
        plan.recipe,
        plan.learner_overrides(run_dir),
        folder / "learner.log",
        plan.launch,
    )
    farm.gateway.submit(plan.job())

    seen = False

    def tick() -> None:
        nonlocal seen
        if not seen and (version := farm.in_service()) and version.run_id == plan.run_id:
            seen = True
            begun(version)
        job = farm.gateway.job(f"{plan.run_id}.train")
        if job.state == JobState.JOB_STATE_FAILED:
            raise Failure(f"job {job.job_id} failed: {job.message}", hint="read the gateway's log")
        steps = read_steps(run_dir)
        meter.at(len(steps), _standing(steps, job), total=plan.updates)
        if validations:
            validations.advance()

    farm.wait_for(learner, _seldom(tick, 0.5))
    if learner.exit_status:
        raise died(learner, "while training")
    job = _drained(farm, f"{plan.run_id}.train")
    version = farm.in_service()
    if version is None or (version.run_id, version.number) != (plan.run_id, plan.last_version):
        raise Failure(
            f"version {plan.last_version} of {plan.run_id} is not in service after the training",
            hint=f"read {learner.log}",
        )
    missed = validations.finish() if validations else []
    return {
        "run_id": plan.run_id,
        "updates": len(read_steps(run_dir)),
        "version": plain_version(version),
        "groups": group_counts(job),
        "sampled_tokens": job.sampled_tokens,
        "attempts": job.attempts,
        "validations": validations.results() if validations else [],
        "missed_validations": missed,
    }


def group_counts(job: gateway_service_pb2.JobStatus) -> dict[str, Any]:
    """What became of the groups of a training job."""
    return {
        "published": job.groups_published,
        "refilled_samples": job.refilled_samples,
        "replaced_zero_variance": job.replaced_zero_variance,
        "filled_zero_variance": job.filled_zero_variance,
        "dropped": job.groups_dropped,
        "cancelled": dict(sorted(job.cancelled.items())),
    }


def plain_version(version: policy_pb2.PolicyVersion) -> dict[str, Any]:
    return {
        "run_id": version.run_id,
        "number": version.number,
        "weights_hash": version.weights_hash,
    }


def _validations(plan: TrainPlan, farm: Farm, folder: Path) -> Validations | None:
    if plan.validation is None:
        return None
    wanted = plan.validation
    numbers = sorted({*range(0, plan.last_version, wanted.every), plan.last_version})
    plans = {
        number: Plan(
            name=f"{plan.run_id}.v{number}",
            suite=wanted.suite,
            k=wanted.k,
            seed=plan.seed,
            run_id=plan.run_id,
            policy=policy_pb2.PolicyVersion(run_id=plan.run_id, number=number),
        )
        for number in numbers
    }
    return Validations(plans, farm, folder / "validation")


def _drained(farm: Farm, job_id: str) -> gateway_service_pb2.JobStatus:
    """The job's last word; it sees within moments that the learner has everything."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while (job := farm.gateway.job(job_id)).state == JobState.JOB_STATE_RUNNING:
        farm.check()
        if time.monotonic() > deadline:
            return farm.gateway.cancel(job_id)
        time.sleep(0.2)
    return job


def _standing(steps: list[dict[str, Any]], job: gateway_service_pb2.JobStatus) -> str:
    waits = f"waiting for {job.waiting_for}" if job.waiting_for else ""
    if not steps:
        return waits or "first groups"
    last = steps[-5:]
    reward = sum(step["reward_mean"] for step in last) / len(last)
    return ", ".join(part for part in (f"reward {reward:.2f}", waits) if part)


def _seldom(call: Callable[[], None], seconds: float) -> Callable[[], None]:
    last = 0.0

    def maybe() -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            call()
            last = time.monotonic()

    return maybe
