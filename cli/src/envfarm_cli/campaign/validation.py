"""Validations of a training run: one pinned evaluation after the other, while training goes on."""

import time
from pathlib import Path
from typing import Any

from envfarm.v1 import gateway_service_pb2

from envfarm_cli.campaign.evaluation import Plan, uncovered
from envfarm_cli.campaign.farm import Farm
from envfarm_cli.campaign.waves import Waves
from envfarm_cli.failure import Failure

FINISH_SECONDS = 3600


class Validations:
    """`advance` submits the next one as soon as the one before it is done; it never blocks."""

    def __init__(self, plans: dict[int, Plan], farm: Farm, folder: Path):
        self._plans = plans
        self._farm = farm
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
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def advance(self) -> None:
        """See after the one that runs; submit the next."""
        for number, waves in self._waves.items():
            if not waves.advance(self._plans[number].keys):
                return
            path = self._folder / f"version-{number}.jsonl"
            if not path.exists():
                waves.save_rows(path)

    def finish(self) -> None:
        """Wait for those that are left; Failure when attempts stay without a reward."""
        deadline = time.monotonic() + FINISH_SECONDS
        while not all(w.advance(self._plans[n].keys) for n, w in self._waves.items()):
            self._farm.check()
            if time.monotonic() > deadline:
                raise Failure("a validation was not done in an hour", hint="see `envfarm status`")
            time.sleep(0.5)
        self.advance()
        for number, waves in self._waves.items():
            keys = self._plans[number].keys
            missing = waves.open_keys(keys)
            if missing:
                raise Failure(
                    f"validation of version {number}: "
                    + uncovered(missing, waves.rows(), len(keys))
                )

    def results(self) -> list[dict[str, Any]]:
        """By version: pass@1, and tasks that passed at least once and always."""
        found = []
        for number, waves in self._waves.items():
            by_task: dict[str, list[float]] = {}
            for row in waves.rows():
                if row.reward is not None:
                    by_task.setdefault(row.task_id, []).append(row.reward)
            rates = [sum(rewards) / len(rewards) for rewards in by_task.values()]
            found.append(
                {
                    "version": number,
                    "pass_at_1": sum(rates) / len(rates) if rates else None,
                    "ever_passed": sum(rate > 0 for rate in rates),
                    "always_passed": sum(rate == 1 for rate in rates),
                    "tasks": len(rates),
                    "k": self._plans[number].k,
                }
            )
        return found
