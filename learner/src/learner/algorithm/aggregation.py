"""From tokens to one number: the weight of each sampled token of a line in the loss.

    token_mean      1 / M                M sampled tokens of the whole update
    sequence_mean   1 / (S · len_i)      S lines with sampled tokens, len_i those of line i
    constant        1 / (B · L_max)      B lines of the update, L_max a constant (Dr. GRPO)

M, S and B are global over micro-batches and ranks, so splitting an update changes nothing.
"""

from collections.abc import Sequence
from typing import Literal

Kind = Literal["token_mean", "sequence_mean", "constant"]


def weights(lengths: Sequence[int], kind: Kind, constant_tokens: int) -> list[float]:
    """`lengths`: sampled tokens of every line of the update, 0 for a line that is masked whole.

    One weight per line; a line without sampled tokens gets 0.
    """
    if kind == "token_mean":
        each = 1.0 / max(sum(lengths), 1)
        return [each if n else 0.0 for n in lengths]
    if kind == "sequence_mean":
        lines = max(sum(n > 0 for n in lengths), 1)
        return [1.0 / (lines * n) if n else 0.0 for n in lengths]
    each = 1.0 / (max(len(lengths), 1) * constant_tokens)
    return [each if n else 0.0 for n in lengths]
