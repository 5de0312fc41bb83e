"""A group as the learner holds it, given by the loss masks of its attempts."""

import numpy as np

from learner.group import Attempt, TakenGroup


def group(*masks: list[int]) -> TakenGroup:
    attempts = tuple(
        Attempt(
            rollout_id=f"g.s{slot}.a1",
            slot=slot,
            task_hash="t",
            verdict_task_hash="t",
            initial_state_hash="s",
            renderer_hash="r",
            sampling_hash="p",
            scored_status=True,
            truncated=False,
            graded=True,
            reward=1.0,
            token_ids=np.zeros(len(mask), dtype=np.int64),
            loss_mask=np.array(mask, dtype=np.uint8),
            logprobs=np.zeros(len(mask), dtype=np.float32),
            spans=(),
        )
        for slot, mask in enumerate(masks)
    )
    return TakenGroup(
        group_id="g",
        run_id="run",
        task_id="d/t",
        task_hash="t",
        initial_state_hash="s",
        size=len(attempts),
        policy_run="run",
        policy_number=0,
        policy_hash="h",
        attempts=attempts,
    )
