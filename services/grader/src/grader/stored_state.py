"""A final state from kept evidence: no env-server, no database, no model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grader.evidence import Evidence
from grader.scratch import Scratch
from grader.verdict import CannotRun
from grader.world_base import BaseStore


@dataclass(frozen=True, slots=True)
class StoredState:
    """Evidence as it was kept, with the answers that its checks got then."""

    evidence: Evidence
    answers: Mapping[str, Sequence[str]]
    bases: BaseStore
    scratch: Scratch

    async def read(self) -> Evidence:
        return self.evidence

    async def query(self, query: str) -> Sequence[str]:
        """The kept rows; those of a new query come from the same state, rebuilt."""
        if query in self.answers:
            return self.answers[query]
        if not self.bases.has(self.evidence.initial_state_hash):
            raise CannotRun("the world's initial state is not known here any more; run ingest")
        base = self.bases.load(self.evidence.initial_state_hash)
        async with self.scratch.holding(base, self.evidence.changes) as database:
            return await database.query(query)
