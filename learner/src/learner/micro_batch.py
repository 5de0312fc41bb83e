"""Lines → micro-batches: packed end to end in one row, or padded on the right.

Shapes: B rows of T positions, N targets. A target is a sampled token; `predicts` is the flat
position (row · T + t) that predicts it, the position before it. This is the only place where that
shift is made.

    packed   B = 1, lines one after another, T = Σ lengths: nothing is padding
    shared   packed, and the beginning that all lines of the row have in common, such as a system
             prompt, stands once at its start: T = shared + Σ lengths of what is each line's own
    padded   a line a row; causal models never look at what stands to the right

An empty micro-batch (no lines) is one token without targets: a rank that has less to do than the
others runs it, so that collectives match.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from learner.line import Line


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch:
    token_ids: Tensor  # [B, T] long
    positions: Tensor  # [B, T] long, from 0 in each line
    lengths: tuple[int, ...]  # of each line, in order, without what it shares
    shared: int  # positions at the start of the row that every line begins with
    packed: bool
    predicts: Tensor  # [N] long
    targets: Tensor  # [N] long
    lines: Tensor  # [N] long, which line of this micro-batch a target belongs to
    weights: Tensor  # [N] float64
    advantages: Tensor  # [N] float64
    old_logprobs: Tensor  # [N] float32
    versions: Tensor  # [N] long
    most_targets: int = 0  # the largest N of the ranks' micro-batches in the same turn

    @property
    def tokens(self) -> int:
        """Tokens that are not padding."""
        return self.shared + sum(self.lengths)

    @property
    def padding(self) -> int:
        return self.token_ids.numel() - self.tokens


SHORTEST_SHARE = 8
"""Positions of a row that a rank has at least where ranks share rows: a short convolution must find
all that it reads on the rank before."""


def own_width(width: int, size: int) -> int:
    """Positions of a row of `width` that each of `size` ranks has, padding counted."""
    return max(-(-width // size), SHORTEST_SHARE)


def owners(part: MicroBatch, size: int) -> Tensor:
    """[N] which of `size` ranks holds the position that predicts a target."""
    width = part.token_ids.shape[1]
    return part.predicts % width // own_width(width, size)


def split(
    lines: Sequence[Line],
    *,
    tokens: int,
    packed: bool,
    shared: bool = False,
    ranks: int = 1,
    sharing: int = 1,
) -> list[list[MicroBatch]]:
    """Micro-batches for each rank, equally many; at most `tokens` positions each, padding counted.

    A longer line goes alone. `shared` (of packed rows) counts a common beginning with every line,
    so a row may hold less than it could. `sharing` ranks have each row's positions together. The
    result depends on the lines, not on their order.
    """
    ordered = sorted(lines, key=lambda line: (-len(line), line.key))
    parts = _packed_parts(ordered, tokens, ranks) if packed else _padded_parts(ordered, tokens)
    made = [_pack(part, shared=shared) if packed else _pad(part) for part in parts]
    made += [_pack([])] * (-len(made) % ranks or (0 if made else ranks))
    turns = [made[i : i + ranks] for i in range(0, len(made), ranks)]
    most = [max(_most_of_a_rank(part, sharing) for part in turn) for turn in turns]
    return [
        [replace(turn[rank], most_targets=n) for turn, n in zip(turns, most, strict=True)]
        for rank in range(ranks)
    ]


def _most_of_a_rank(part: MicroBatch, sharing: int) -> int:
    if sharing == 1 or not len(part.targets):
        return len(part.targets)
    return int(owners(part, sharing).bincount().max())


def _packed_parts(ordered: list[Line], tokens: int, ranks: int) -> list[list[Line]]:
    """Longest first into the emptiest of n parts, n the smallest multiple of `ranks` that fits."""
    total = sum(map(len, ordered))
    count = max(1, -(-total // tokens))
    while True:
        count += -count % ranks
        parts: list[list[Line]] = [[] for _ in range(count)]
        sizes = [0] * count
        for line in ordered:
            smallest = sizes.index(min(sizes))
            parts[smallest].append(line)
            sizes[smallest] += len(line)
        full = [part for part in parts if part]
        if all(sum(map(len, part)) <= tokens or len(part) == 1 for part in full):
            return full
        count += 1


def _padded_parts(ordered: list[Line], tokens: int) -> list[list[Line]]:
    """Neighbours in length together; the first line of a part is its longest."""
    parts: list[list[Line]] = []
    for line in ordered:
        if not parts or (len(parts[-1]) + 1) * len(parts[-1][0]) > tokens:
            parts.append([])
        parts[-1].append(line)
    return parts


def _pack(lines: list[Line], *, shared: bool = False) -> MicroBatch:
    begin = _common_beginning(lines) if shared else 0
    lengths = [len(line) - begin for line in lines] or [1]
    starts = begin + np.concatenate([[0], np.cumsum(lengths)[:-1]])
    ids = [line.token_ids[begin:] for line in lines] or [np.zeros(1, dtype=np.int64)]
    positions = [np.arange(begin, begin + n) for n in lengths]
    if begin:
        ids.insert(0, lines[0].token_ids[:begin])
        positions.insert(0, np.arange(begin))
    row, places = np.concatenate(ids)[None], np.concatenate(positions)[None]
    return _made(lines, starts, row, places, tuple(lengths), begin, packed=True)


def _common_beginning(lines: list[Line]) -> int:
    """Tokens that all lines begin with; each keeps at least one of its own."""
    if len(lines) < 2:
        return 0
    most = min(map(len, lines)) - 1
    first = lines[0].token_ids[:most]
    differ = np.stack([line.token_ids[:most] != first for line in lines[1:]]).any(axis=0)
    return int(differ.argmax()) if differ.any() else most


def _pad(lines: list[Line]) -> MicroBatch:
    width = max(len(line) for line in lines)
    ids = np.zeros((len(lines), width), dtype=np.int64)
    for row, line in enumerate(lines):
        ids[row, : len(line)] = line.token_ids
    positions = np.broadcast_to(np.arange(width), ids.shape)
    starts = np.arange(len(lines)) * width
    return _made(lines, starts, ids, positions, tuple(map(len, lines)), 0, packed=False)


def _made(
    lines: list[Line],
    starts: np.ndarray,
    ids: np.ndarray,
    positions: np.ndarray,
    lengths: tuple[int, ...],
    shared: int,
    *,
    packed: bool,
) -> MicroBatch:
    """`starts`: where in the row the first token after the shared ones stands, of each line."""
    where = [np.flatnonzero(line.sampled) for line in lines]
    counts = [len(at) for at in where]

    def joined(parts: list[np.ndarray], dtype: type) -> Tensor:
        whole = np.concatenate(parts) if parts else np.zeros(0)
        return torch.from_numpy(whole.astype(dtype))

    def each(values: list[float]) -> Tensor:
        return torch.from_numpy(np.repeat(np.array(values, dtype=np.float64), counts))

    return MicroBatch(
        token_ids=torch.from_numpy(np.array(ids)),
        positions=torch.from_numpy(np.array(positions)),
        lengths=lengths,
        shared=shared,
        packed=packed,
        predicts=joined(
            [
                np.where(at > shared, s - shared, 0) + at - 1
                for s, at in zip(starts, where, strict=False)
            ],
            np.int64,
        ),
        targets=joined([a.token_ids[at] for a, at in zip(lines, where, strict=True)], np.int64),
        lines=torch.from_numpy(np.repeat(np.arange(len(lines)), counts)),
        weights=each([line.weight for line in lines]),
        advantages=each([line.advantage for line in lines]),
        old_logprobs=joined(
            [a.old_logprobs[at] for a, at in zip(lines, where, strict=True)], np.float32
        ),
        versions=joined([a.versions[at] for a, at in zip(lines, where, strict=True)], np.int64),
    )
