"""The loss written again from its formulas, one token at a time in Python floats. For tests only."""

import math


def advantages(rewards: list[float]) -> list[float]:
    mean = sum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


def loss(groups: list[list[dict]], clip_low: float, clip_high: float) -> float:
    """Each rollout: reward, mask [T], new [T], old [T] (log-probabilities of each token)."""
    total, count = 0.0, 0
    for group in groups:
        for rollout, advantage in zip(group, advantages([r["reward"] for r in group]), strict=True):
            for mask, new, old in zip(rollout["mask"], rollout["new"], rollout["old"], strict=True):
                if mask:
                    ratio = math.exp(max(-20.0, min(20.0, new - old)))
                    clipped = max(1 - clip_low, min(1 + clip_high, ratio))
                    total -= min(ratio * advantage, clipped * advantage)
                    count += 1
    return total / max(count, 1)
