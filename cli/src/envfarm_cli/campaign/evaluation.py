"""An evaluation: N tasks × k repetitions at one policy version, until every key has a reward."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from envfarm.attempt_row import AttemptRow
from envfarm.v1 import gateway_service_pb2, policy_pb2

from envfarm_cli.campaign import served
from envfarm_cli.campaign.farm import Farm
from envfarm_cli.campaign.narration import Meter
from envfarm_cli.campaign.waves import Key, Waves
from envfarm_cli.failure import Failure
from envfarm_numbers.rows import FILE_NAME
from envfarm_numbers.suite import Suite

REFUSED = "EndpointRefused"
REPAIRS = 3
"""Further waves for keys that have no reward; the gateway has tried each several times by then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What one evaluation is."""

    name: str
    """Begins the ids of its jobs."""
    suite: Suite
    k: int
    seed: int
    run_id: str
    policy: policy_pb2.PolicyVersion | None
    """The version that it is pinned to; None takes whatever is in service."""
    interface: str = ""
    """chat asks the gateway's chat endpoint; empty its engines."""

    @property
    def keys(self) -> list[Key]:
        return [(task, number) for task in self.suite.tasks for number in range(self.k)]


def evaluate(plan: Plan, farm: Farm, folder: Path, meter: Meter) -> list[AttemptRow]:
    """Run what is missing and write `folder`/attempts.jsonl; gives its rows, failed ones included.

    Failure when a key is still without a reward after the repairs: there is no headline then.
    """
    served.check(plan.suite, farm.tasks())
    folder.mkdir(parents=True, exist_ok=True)
    waves = Waves(
        folder=folder,
        name=plan.name,
        farm=farm,
        kind=gateway_service_pb2.JOB_KIND_EVAL,
        run_id=plan.run_id,
        seed=plan.seed,
        policy=plan.policy,
        interface=plan.interface,
    )
    keys = plan.keys

    def tick(job: gateway_service_pb2.JobStatus, rows: list[AttemptRow]) -> None:
        clean = [row for row in rows if row.reward is not None]
        meter.at(len(clean), standing(clean, job.waiting_for), total=len(keys))

    path = folder / FILE_NAME
    with waves.saved(path):
        waves.finish(tick)
        rounds = 0
        while (missing := waves.open_keys(keys)) and rounds <= REPAIRS:
            if rounds and _is_hopeless(missing, waves.rows()):
                break
            waves.play(missing, tick)
            rounds += 1
    if missing:
        raise Failure(uncovered(missing, waves.rows(), len(keys)), hint=f"its rows are in {path}")
    return waves.rows()


def standing(clean: list[AttemptRow], waiting_for: str = "") -> str:
    """The running estimate, for people."""
    if not clean:
        return f"waiting for {waiting_for}" if waiting_for else "starting"
    passed = sum(row.reward == 1 for row in clean)
    text = f"pass@1 {passed / len(clean):.2f} so far"
    return f"{text}, waiting for {waiting_for}" if waiting_for else text


def _is_hopeless(missing: list[Key], rows: list[AttemptRow]) -> bool:
    """Whether all that is missing was refused by the endpoint, which will not change its mind."""
    last = {(row.task_id, row.repetition): row.error_class for row in rows if row.reward is None}
    return all(last.get(key) == REFUSED for key in missing)


def uncovered(missing: list[Key], rows: list[AttemptRow], total: int) -> str:
    """Why there is no headline."""
    owed = set(missing)
    reasons = Counter(
        row.error_class or row.status for row in rows if (row.task_id, row.repetition) in owed
    )
    why = (
        ", ".join(f"{name} × {count}" for name, count in reasons.most_common(3)) or "not attempted"
    )
    covered = total - len(missing)
    said = next((r.message for r in rows if (r.task_id, r.repetition) in owed and r.message), "")
    why += f"; the first: {said}" if said else ""
    return (
        f"coverage {covered} of {total} ({100 * covered / total:.1f} %): "
        f"no figure is given before every attempt has a reward; missing ones ended with {why}"
    )
