"""The lines of an update as flat arrays, so that rank 0 can hand them to the other ranks."""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from learner.line import Line

Arrays = dict[str, NDArray]

_TOKENS = {
    "token_ids": np.int64,
    "sampled": np.bool_,
    "old_logprobs": np.float32,
    "versions": np.int64,
}


def to_arrays(lines: Sequence[Line]) -> Arrays:
    """Tokens of all lines end to end, one number a line, and the keys as JSON bytes."""
    arrays: Arrays = {
        name: np.concatenate([getattr(line, name) for line in lines] or [np.zeros(0)]).astype(kind)
        for name, kind in _TOKENS.items()
    }
    arrays["lengths"] = np.array([len(line) for line in lines], dtype=np.int64)
    arrays["weight"] = np.array([line.weight for line in lines], dtype=np.float64)
    arrays["advantage"] = np.array([line.advantage for line in lines], dtype=np.float64)
    keys = json.dumps([line.key for line in lines]).encode()
    arrays["keys"] = np.frombuffer(keys, dtype=np.uint8)
    return arrays


def from_arrays(arrays: Arrays) -> tuple[Line, ...]:
    """What `to_arrays` was given."""
    ends = np.cumsum(arrays["lengths"])
    keys = json.loads(arrays["keys"].tobytes())
    return tuple(
        Line(
            key=key,
            weight=float(arrays["weight"][i]),
            advantage=float(arrays["advantage"][i]),
            **{name: arrays[name][ends[i] - arrays["lengths"][i] : ends[i]] for name in _TOKENS},
        )
        for i, key in enumerate(keys)
    )
