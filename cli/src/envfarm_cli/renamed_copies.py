"""Copies of recorded conversations in which every id, and everybody's name, is another one.

A small policy that sees each record's ids and names a few times learns them by heart instead of
learning to copy and to compare them. In a copy the digits of all ids are exchanged by one
permutation, and so are the given names: J412 of Lea and C41 become, say, J783 of Otto and C78,
wherever they stand, so who owns what stays as it was. Amounts, days and other words do not change.
An id is one capital letter and at least two digits, each of them a token.
"""

import random
from collections.abc import Sequence
from pathlib import Path

from envfarm.record_frames import HEAD, ROLLOUT, read_rollouts, record_files
from envfarm.v1 import group_pb2
from tokenizers import Tokenizer

from envfarm_cli.failure import BadInput

DIGITS = "0123456789"
CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SHORTEST = 2
"""Digits of an id."""


class Renaming:
    """Finds ids and names among the tokens of one tokenizer and exchanges them."""

    def __init__(self, tokenizer: Tokenizer, names: Sequence[str] = ()):
        """Names that are more than one token stay as they are. BadInput when a digit or a capital
        letter is no token."""
        self._token = [_token(tokenizer, digit) for digit in DIGITS]
        self._digits = {token: digit for digit, token in enumerate(self._token)}
        self._capitals = {_token(tokenizer, letter) for letter in CAPITALS}
        forms = [[tokenizer.encode(before + name).ids for before in ("", " ")] for name in names]
        self._names = [
            tuple(form[0] for form in both)
            for both in forms
            if all(len(form) == 1 for form in both)
        ]
        """Of each name its token at a beginning and after a space."""

    def places(self, ids: Sequence[int]) -> list[range]:
        """Where the digits of each id stand."""
        found, at = [], 0
        while at < len(ids):
            end = at + 1
            if ids[at] in self._capitals:
                while end < len(ids) and ids[end] in self._digits:
                    end += 1
                if end - at > SHORTEST:
                    found.append(range(at + 1, end))
            at = end
        return found

    def rename(self, ids: Sequence[int], rng: random.Random) -> list[int]:
        """`ids` with other ids and names in it; a first digit never becomes 0."""
        places, renamed = self.places(ids), list(ids)
        firsts = {self._digits[ids[place[0]]] for place in places}
        other = rng.sample(range(10), 10)
        while any(first and other[first] == 0 for first in firsts):
            other = rng.sample(range(10), 10)
        for place in places:
            for at in place:
                renamed[at] = self._token[other[self._digits[ids[at]]]]
        names = self._other_names(rng)
        return [names.get(token, token) for token in renamed]

    def _other_names(self, rng: random.Random) -> dict[int, int]:
        others = rng.sample(self._names, len(self._names))
        return {
            token: instead
            for name, other in zip(self._names, others, strict=True)
            for token, instead in zip(name, other, strict=True)
        }


def write_renamed_copies(
    records: Path, out: Path, tokenizer: Path, *, names: Sequence[str], copies: int, seed: int
) -> int:
    """Write `copies` of every rollout under `records` to the file `out`; how many were written.

    A copy keeps tokens, mask and verdict and has no turns, whose text would be the original's.
    ConfigError when the records cannot be read.
    """
    renaming = Renaming(Tokenizer.from_file(str(tokenizer)), names)
    rng = random.Random(seed)
    rollouts = [rollout for path in record_files(records) for rollout in read_rollouts(path)]
    # Records stand in the order in which attempts ended, which no seed decides.
    rollouts.sort(key=lambda rollout: rollout.rollout_id)
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as file:
        for rollout in rollouts:
            for number in range(1, copies + 1):
                copy = _copy(rollout, renaming, rng, number).SerializeToString()
                file.write(HEAD.pack(ROLLOUT, len(copy)) + copy)
    return len(rollouts) * copies


def _token(tokenizer: Tokenizer, letter: str) -> int:
    token = tokenizer.token_to_id(letter)
    if token is None:
        raise BadInput(f"ids cannot be renamed: the tokenizer has no token {letter!r}")
    return token


def _copy(
    rollout: group_pb2.Rollout, renaming: Renaming, rng: random.Random, number: int
) -> group_pb2.Rollout:
    copy = group_pb2.Rollout()
    copy.CopyFrom(rollout)
    copy.rollout_id = copy.trajectory.rollout_id = f"{rollout.rollout_id}~{number}"
    copy.trajectory.token_ids[:] = renaming.rename(rollout.trajectory.token_ids, rng)
    copy.trajectory.ClearField("turns")
    copy.trajectory.ClearField("final_reply")
    return copy
