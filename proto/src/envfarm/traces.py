"""Which trace an attempt is: its ids are made from its rollout id, so whoever has one finds the other.

The gateway opens the trace's first span under these ids; the learner, which meets the attempt later
and elsewhere, adds to it without anything on the wire.
"""

import hashlib
from typing import NamedTuple


class TraceIds(NamedTuple):
    trace: int
    """128 bits, not 0."""
    root: int
    """64 bits, not 0: the span of the whole attempt."""


def trace_ids(rollout_id: str) -> TraceIds:
    """SHA-256 of the rollout id, first 16 bytes and the next 8."""
    digest = hashlib.sha256(rollout_id.encode()).digest()
    return TraceIds(
        int.from_bytes(digest[:16], "big") or 1, int.from_bytes(digest[16:24], "big") or 1
    )


def trace_id_text(rollout_id: str) -> str:
    """As tools for traces ask for it: 32 hexadecimal digits."""
    return f"{trace_ids(rollout_id).trace:032x}"
