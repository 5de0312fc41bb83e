"""Validations of a training run: evaluation jobs that are pinned to versions, while training goes on.

All of them are submitted at the start. Each waits for its version and keeps it in service until it is
done, so none can be missed by being late; only a kill of the gateway in the middle of one can cost it,
and then it is named.
"""

import time
from pathlib import Path
from typing import Any

from envfarm.v1 import gateway_service_pb2

from envfarm_cli.campaign.evaluation import Plan, uncovered
from envfarm_cli.campaign.farm import Farm
from envfarm_cli.campaign.waves import Waves
from envfarm_cli.failure import Failure

POLL_SECONDS = 0.5


class Validations:
    """By version number, ascending. `advance` never blocks."""

    def __init__(self, plans: dict[int, Plan], farm: Farm, folder: Path):
        self._plans = plans
        self._farm = farm
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._missed: set[int] = set()
        self._waves = {
            number: Waves(
                folder=folder,
                name=plan.name,
                farm=farm,
                kind=gateway_service_pb2.JOB_KIND_EVAL,
                run_id=plan.run_id,
                seed=plan.seed,
                policy=plan.policy,
            )
            for number, plan in plans.items()
        }

    def advance(self) -> bool:
        """Submit what is not submitted yet, keep the rows of what is done; whether all is."""
        done = True
        for number, waves in self._waves.items():
            if number in self._missed:
                continue
            if not waves.advance(self._plans[number].keys):
                done = False
                continue
            path = self._folder / f"version-{number}.jsonl"
            if not path.exists():
                waves.save_rows(path)
        return done

    def finish(self) -> list[int]:
        """Wait for those that are left, after the last version came into service; the numbers of
        those whose version had gone. Failure when an attempt stays without a reward."""
        while not self.advance():
            self._farm.check()
            self._give_up_those_gone()
            time.sleep(POLL_SECONDS)
        for number, waves in self._waves.items():
            keys = self._plans[number].keys
            missing = waves.open_keys(keys)
            if missing and number not in self._missed:
                raise Failure(
                    f"validation of version {number}: "
                    + uncovered(missing, waves.rows(), len(keys))
                )
        return sorted(self._missed)

    def _give_up_those_gone(self) -> None:
        version = self._farm.in_service()
        if version is None:
            return
        jobs = {job.job_id: job for job in self._farm.gateway.status().jobs}
        for number, waves in self._waves.items():
            for wave in waves.waves:
                job = jobs.get(wave.job_id)
                waits = job is not None and job.waiting_for == "version"
                if waits and number < version.number and not wave.done:
                    self._farm.gateway.cancel(wave.job_id)
                    self._missed.add(number)

    def results(self) -> list[dict[str, Any]]:
        """By version: pass@1, and tasks that passed at least once and always."""
        found = []
        for number, waves in self._waves.items():
            by_task: dict[str, list[float]] = {}
            for row in waves.rows():
                if row.reward is not None:
                    by_task.setdefault(row.task_id, []).append(row.reward)
            rates = [sum(rewards) / len(rewards) for rewards in by_task.values()]
            if number in self._missed or not rates:
                continue
            found.append(
                {
                    "version": number,
                    "pass_at_1": sum(rates) / len(rates),
                    "ever_passed": sum(rate > 0 for rate in rates),
                    "always_passed": sum(rate == 1 for rate in rates),
                    "tasks": len(rates),
                    "k": self._plans[number].k,
                }
            )
        return found
