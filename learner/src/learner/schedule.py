"""The learning rate of an optimizer step, as a share of the peak.

A rise matters for few and noisy updates: Adam's first steps move every weight by the whole rate,
whatever the gradient's size, and later ones by a fraction of it.

rise     (s + 1) / warmup                       for the first `warmup` steps
linear   (S − s) / (S − warmup)
cosine   ½ (1 + cos(π · (s − warmup) / (S − warmup)))
"""

import math


def share(kind: str, step: int, *, steps: int, warmup: int) -> float:
    """`step` counts from 0; at most 1."""
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    if kind == "linear":
        return 1.0 - done
    if kind == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * done))
    return 1.0
