"""The token stream of one attempt: what was given, what was sampled, under which weights.

Loss mask and log-probabilities are made here, where tokens are made, and nowhere else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from envfarm.errors import InternalError
from envfarm.v1 import trajectory_pb2


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens [start, start + length) were sampled under policy version `number`."""

    start: int
    length: int
    number: int


@dataclass(slots=True)
class TokenStream:
    """ids, mask and logprobs have one length at any time; spans cover exactly the masked tokens."""

    ids: list[int] = field(default_factory=list)
    mask: bytearray = field(default_factory=bytearray)
    logprobs: list[float] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    hidden: list[tuple[int, int]] = field(default_factory=list)
    """[start, end) of tokens that stay on record and are not given to the policy again."""

    def __len__(self) -> int:
        return len(self.ids)

    def context(self) -> list[int]:
        """What the policy reads next."""
        if not self.hidden:
            return self.ids
        kept, position = list[int](), 0
        for start, end in self.hidden:
            kept += self.ids[position:start]
            position = end
        return kept + self.ids[position:]

    def hide(self, start: int, length: int) -> None:
        """In order of position."""
        if length:
            self.hidden.append((start, start + length))

    def give(self, ids: Sequence[int]) -> tuple[int, int]:
        """Append tokens that the policy reads and did not write; returns (start, length)."""
        start = len(self.ids)
        self.ids.extend(ids)
        self.mask.extend(bytes(len(ids)))
        self.logprobs.extend([0.0] * len(ids))
        return start, len(ids)

    def sample(
        self, ids: Sequence[int], logprobs: Sequence[float], versions: Sequence[tuple[int, int]]
    ) -> tuple[int, int]:
        """Append a sampled turn; `versions` are (number, length) in order and cover it exactly."""
        if len(ids) != len(logprobs) or sum(length for _, length in versions) != len(ids):
            raise InternalError(
                f"{len(ids)} tokens with {len(logprobs)} logprobs and versions {list(versions)}"
            )
        if not self.ids:
            raise InternalError("nobody can sample the first token: it has no context")
        start = position = len(self.ids)
        for number, length in versions:
            self._span(position, length, number)
            position += length
        self.ids.extend(ids)
        self.mask.extend(b"\x01" * len(ids))
        self.logprobs.extend(logprobs)
        return start, len(ids)

    def write_to(self, trajectory: trajectory_pb2.Trajectory) -> None:
        trajectory.token_ids.extend(self.ids)
        trajectory.loss_mask = bytes(self.mask)
        trajectory.logprobs.extend(self.logprobs)
        for span in self.spans:
            trajectory.version_spans.add(
                start=span.start, length=span.length, version_number=span.number
            )

    def _span(self, start: int, length: int, number: int) -> None:
        if length < 1:
            return
        if self.spans:
            last = self.spans[-1]
            if last.number == number and last.start + last.length == start:
                self.spans[-1] = Span(last.start, last.length + length, number)
                return
        self.spans.append(Span(start, length, number))
