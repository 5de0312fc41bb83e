"""Which conversations each step takes: a function of seed and step, so a resume needs no state.

An epoch holds each folder's conversations `weight` times: whole copies, and for the fraction as
many as it says, drawn anew in each epoch. Epochs are shuffled and joined end to end.
"""

import math
import random
from collections.abc import Iterator

from learner.sft.conversations import Conversation, Folder


def epoch_size(folders: tuple[Folder, ...]) -> int:
    """Conversations in one epoch."""
    return sum(round(len(folder.conversations) * folder.weight) for folder in folders)


def epoch(folders: tuple[Folder, ...], seed: int, number: int) -> list[Conversation]:
    """The conversations of epoch `number` (from 0) in the order of use."""
    source = random.Random(f"{seed}:{number}")
    chosen: list[Conversation] = []
    for folder in folders:
        count = round(len(folder.conversations) * folder.weight)
        copies, rest = divmod(count, len(folder.conversations) or 1)
        chosen += [*folder.conversations] * copies
        chosen += source.sample(folder.conversations, rest)
    source.shuffle(chosen)
    return chosen


def batches(
    folders: tuple[Folder, ...], seed: int, size: int, first: int
) -> Iterator[list[Conversation]]:
    """Batches of step `first` (from 0) and on, without end; `size` conversations each."""
    length = epoch_size(folders)
    number, offset = divmod(first * size, length)
    waiting = epoch(folders, seed, number)[offset:]
    while True:
        while len(waiting) < size:
            number += 1
            waiting += epoch(folders, seed, number)
        yield waiting[:size]
        waiting = waiting[size:]


def steps(folders: tuple[Folder, ...], size: int, epochs: float) -> int:
    """Steps that make `epochs` passes; the last may reach into the next."""
    return max(1, math.ceil(epochs * epoch_size(folders) / size))
