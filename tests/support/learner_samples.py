"""Groups as the learner holds them, built by hand."""

from collections.abc import Sequence

import numpy as np
from envfarm.sampling import Sampling

from learner.group import Attempt, Span, TakenGroup

SAMPLING = Sampling()
"""That of learner/configs/tiny-cpu.toml."""


def attempt(
    slot: int,
    token_ids: Sequence[int],
    mask: Sequence[int],
    *,
    reward: float | None = 1.0,
    logprobs: Sequence[float] | None = None,
    version: int = 3,
    group_id: str = "g",
    **changes,
) -> Attempt:
    """Spans follow from the mask; logprobs default to −1 where sampled."""
    spans = []
    for i, sampled in enumerate(mask):
        if sampled and spans and spans[-1][0] + spans[-1][1] == i:
            spans[-1][1] += 1
        elif sampled:
            spans.append([i, 1])
    values = dict(
        rollout_id=f"{group_id}.s{slot}",
        slot=slot,
        task_hash="t",
        verdict_task_hash="t",
        initial_state_hash="s",
        renderer_hash="r",
        sampling_hash=SAMPLING.hash,
        scored_status=True,
        truncated=False,
        graded=True,
        reward=reward,
        token_ids=np.array(token_ids, dtype=np.int64),
        loss_mask=np.array(mask, dtype=np.uint8),
        logprobs=np.array(
            logprobs if logprobs is not None else [-1.0 * m for m in mask], dtype=np.float32
        ),
        spans=tuple(Span(start=s, length=n, number=version) for s, n in spans),
    )
    return Attempt(**{**values, **changes})


def group(attempts: Sequence[Attempt], group_id: str = "g", **changes) -> TakenGroup:
    values = dict(
        group_id=group_id,
        run_id="run",
        task_id="orders/x",
        task_hash="t",
        initial_state_hash="s",
        size=len(attempts),
        policy_run="run",
        policy_number=3,
        policy_hash="h3",
        attempts=tuple(attempts),
    )
    return TakenGroup(**{**values, **changes})
