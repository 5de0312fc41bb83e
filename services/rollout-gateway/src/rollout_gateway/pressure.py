"""How many attempts may run at once: as many as the engines take without queueing or thrashing.

vLLM tells how full its KV cache is and how many requests queue. Above the high mark, or while
requests queue, fewer attempts get seats; below the low mark, and with every seat taken, more. The
configured number is the most.
"""

import asyncio
from dataclasses import dataclass

from envfarm.errors import EngineError
from envfarm_common.metrics import Instruments

from rollout_gateway.engine import Engine, Pressure
from rollout_gateway.policy import EngineState, Policy
from rollout_gateway.seats import Seats

LOOK_SECONDS = 1.0
HIGH, LOW = 0.90, 0.75
"""Shares of the KV cache in use."""
DOWN, UP = 0.85, 1.10


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    least: int
    most: int


def next_limit(limit: int, held: int, seen: list[Pressure], bounds: Bounds) -> int:
    """Pure: the limit after one look at the engines; as it was when none told anything."""
    if not seen:
        return limit
    if any(one.waiting > 0 or one.cache > HIGH for one in seen):
        # Seats that nobody took are not what presses.
        return max(bounds.least, int(min(limit, held) * DOWN))
    if held >= limit and all(one.cache < LOW for one in seen):
        return min(bounds.most, max(limit + 1, int(limit * UP)))
    return limit


def lasting(before: list[Pressure], now: list[Pressure]) -> list[Pressure]:
    """A burst that queues for a moment is no pressure: what counts stood at two looks in a row."""
    if len(before) != len(now):
        return now if not before else []
    return [
        Pressure(min(a.waiting, b.waiting), min(a.cache, b.cache))
        for a, b in zip(before, now, strict=True)
    ]


class PressureGauge:
    def __init__(self, policy: Policy, seats: Seats, instruments: Instruments, bounds: Bounds):
        self._policy, self._seats, self._instruments = policy, seats, instruments
        self._bounds = bounds

    async def run(self) -> None:
        """Adjust the seats for ever."""
        before: list[Pressure] = []
        while True:
            now = await self._look()
            seen, before = lasting(before, now), now
            self._seats.limit = next_limit(self._seats.limit, self._seats.held, seen, self._bounds)
            self._tell()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> list[Pressure]:
        engines = [
            place.engine for place in self._policy.places if place.state is EngineState.SERVING
        ]
        answers = await asyncio.gather(*map(_ask, engines))
        return [answer for answer in answers if answer is not None]

    def _tell(self) -> None:
        seats = self._seats
        counts = {"allowed": seats.limit, "held": seats.held, "waited_for": seats.waiting}
        for state, count in counts.items():
            self._instruments.set("envfarm_seats", count, state=state)


async def _ask(engine: Engine) -> Pressure | None:
    try:
        return await engine.pressure()
    except EngineError:
        return None
