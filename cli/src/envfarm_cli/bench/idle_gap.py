"""How long a turn that could run waits while the engine is free.

Seen from outside the gateway: from the engine's answer until the next request of the same attempt
arrives, less the seconds that its tool calls took. What is left is the gateway's own work, its
queues and the way between the processes. The instant engine is always free.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from envfarm.v1 import group_pb2, trajectory_pb2

Times = Mapping[str, tuple[float, float]]
"""Request id → when it arrived and when it was answered, in seconds of the engine's clock."""


def gaps(rollouts: Iterable[group_pb2.Rollout], times: Times) -> list[float]:
    """Seconds before each turn but an attempt's first, where the engine saw both turns."""
    found = []
    for rollout in rollouts:
        turns = [
            sum(call.seconds for call in turn.calls)
            for turn in rollout.trajectory.turns
            if turn.kind == trajectory_pb2.TURN_KIND_ASSISTANT
        ]
        for number, tool_seconds in enumerate(turns[:-1]):
            before = times.get(f"{rollout.rollout_id}.t{number}")
            after = times.get(f"{rollout.rollout_id}.t{number + 1}")
            if before and after:
                found.append(after[0] - before[1] - tool_seconds)
    return found


def p99_ms(seconds: list[float]) -> float:
    """Milliseconds that 99 of 100 gaps stay below. ValueError without any gap."""
    if not seconds:
        raise ValueError("there is no gap to measure")
    return round(1000 * float(np.percentile(seconds, 99)), 2)
