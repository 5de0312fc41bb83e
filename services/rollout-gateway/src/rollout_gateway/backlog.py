"""How much lies on the streams that no learner has taken, told whether a job runs or not."""

import asyncio
from collections.abc import Iterable

from envfarm.errors import StreamError
from envfarm_common.metrics import Instruments

from rollout_gateway.jobs import ACTIVE, Job
from rollout_gateway.publish import Publisher

LOOK_SECONDS = 1.0


class BacklogGauge:
    def __init__(
        self, publisher: Publisher, jobs: Iterable[Job], limit: int, instruments: Instruments
    ):
        """Groups of one run are counted up to `limit`."""
        self._publisher, self._jobs, self._limit = publisher, jobs, limit
        self._instruments = instruments
        self._left: set[str] = set()

    async def run(self) -> None:
        """Look at the streams for ever."""
        self._left = {job.spec.run_id for job in self._jobs if job.spec.publish}
        while True:
            try:
                await self._look()
            except StreamError:
                pass  # the figure stays; whoever needs the stream says that it is away
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        """At runs with a job that goes on, and at those that had something at the last look."""
        active = {j.spec.run_id for j in self._jobs if j.spec.publish and j.state in ACTIVE}
        counts = {
            run_id: (await self._publisher.backlog(run_id, self._limit)).groups
            for run_id in sorted(active | self._left)
        }
        self._left = {run_id for run_id, groups in counts.items() if groups}
        self._instruments.set("envfarm_undelivered_groups", sum(counts.values()))
