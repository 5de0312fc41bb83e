"""The loss written again from its formulas, one token at a time in Python floats. For tests only.

A rollout: reward, truncated, mask [T], new [T] (log π_θ), old [T] (log μ), initial [T] (log π_ref),
entropy [T]. A recipe: the keys of the algorithm's section.
"""

import math


def exp_ratio(above: float, below: float) -> float:
    return math.exp(max(-20.0, min(20.0, above - below)))


def advantages(rewards: list[float], kind: str) -> list[float]:
    n = len(rewards)
    mean = sum(rewards) / n
    if all(reward == rewards[0] for reward in rewards):
        return [0.0] * n
    if kind == "rloo":
        return [r - (sum(rewards) - r) / (n - 1) for r in rewards]
    if kind == "std":
        variance = sum((r - mean) ** 2 for r in rewards) / (n - 1)
        return [(r - mean) / (math.sqrt(variance) + 1e-6) for r in rewards]
    return [r - mean for r in rewards]


def shaped_reward(rollout: dict, recipe: dict) -> float:
    if recipe["overlong"] != "penalty":
        return rollout["reward"]
    n, limit, buffer = sum(rollout["mask"]), recipe["overlong_tokens"], recipe["overlong_buffer"]
    if n <= limit - buffer:
        return rollout["reward"]
    return rollout["reward"] + ((limit - buffer - n) / buffer if n <= limit else -1.0)


def correction(rollout: dict, where: list[int], t: int, recipe: dict) -> float:
    kind, low, high = recipe["correction"], recipe["correction_low"], recipe["correction_high"]
    rho = exp_ratio(rollout["new"][t], rollout["old"][t])
    if kind == "tis":
        return min(rho, high)
    if kind == "icepop":
        return rho if low <= rho <= high else 0.0
    if kind == "sequence_mask":
        gaps = [rollout["new"][u] - rollout["old"][u] for u in where]
        return 1.0 if low <= math.exp(sum(gaps) / len(gaps)) <= high else 0.0
    return 1.0


def divergence(kind: str, x: float) -> float:
    return {"k1": -x, "k2": x * x / 2, "k3": math.exp(x) - 1 - x}[kind]


def token_loss(rollout: dict, where: list[int], t: int, advantage: float, recipe: dict) -> float:
    new, old = rollout["new"], rollout["old"]
    beta, kl = recipe["kl_coefficient"], 0.0
    if recipe["kl"] != "none":
        against = rollout["initial"] if recipe["kl_reference"] == "initial" else old
        kl = divergence(recipe["kl"], against[t] - new[t])
    if recipe["kl"] == "k1":
        advantage, kl = advantage - beta * kl, 0.0
    corrected = recipe["correction"] != "none"
    ratio = 1.0 if corrected else exp_ratio(new[t], old[t])
    if recipe["surrogate"] == "gspo":
        ratio = math.exp(sum(new[u] - old[u] for u in where) / len(where))
    held = max(1 - recipe["clip_low"], min(1 + recipe["clip_high"], ratio))
    if recipe["surrogate"] == "cispo":
        value = -held * advantage * new[t]
    else:
        value = -min(ratio * advantage, held * advantage)
    value *= correction(rollout, where, t, recipe)
    return value + beta * kl - recipe["entropy_coefficient"] * rollout["entropy"][t]


def loss(groups: list[list[dict]], recipe: dict) -> float:
    lines = []  # (rollout, trained positions, advantage)
    for group in groups:
        values = advantages([shaped_reward(r, recipe) for r in group], recipe["advantage"])
        for rollout, advantage in zip(group, values, strict=True):
            where = [t for t, sampled in enumerate(rollout["mask"]) if sampled]
            if recipe["overlong"] == "mask" and rollout["truncated"]:
                where = []
            lines.append((rollout, where, advantage))
    tokens = sum(len(where) for _, where, _ in lines)
    used = sum(bool(where) for _, where, _ in lines)
    total = 0.0
    for rollout, where, advantage in lines:
        inner = sum(token_loss(rollout, where, t, advantage, recipe) for t in where)
        if recipe["aggregation"] == "token_mean":
            total += inner / tokens
        elif recipe["aggregation"] == "sequence_mean":
            total += inner / len(where) / used if where else 0.0
        else:
            total += inner / (len(lines) * recipe["constant_tokens"])
    return total
