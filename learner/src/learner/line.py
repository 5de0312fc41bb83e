"""One sequence that the learner learns from, whatever it came from.

Shapes: T tokens. `sampled[t]` says that the policy sampled token t, so that token t is a target.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    key: str
    """Unique within a batch; ties in length are broken by it."""
    token_ids: NDArray[np.int64]  # [T]
    sampled: NDArray[np.bool_]  # [T], False at 0
    weight: float
    """Of each sampled token in the loss; all weights of an update come from one aggregation."""
    advantage: float
    old_logprobs: NDArray[np.float32]  # [T], the engine's
    versions: NDArray[np.int64]  # [T], −1 where not sampled

    def __len__(self) -> int:
        return len(self.token_ids)
