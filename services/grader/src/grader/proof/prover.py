"""Proves one task: golden run, empty run, a second golden run, and every mutant of the catalogue."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from envfarm.errors import EvidenceError
from envfarm.v1 import episode_pb2, task_pb2

from grader.another_try import with_more_tries
from grader.check_run import CheckRunner
from grader.checkset import CheckFile
from grader.evidence import Evidence
from grader.evidence_client import EpisodeState, EvidenceClient
from grader.fresh_run import FreshRuns
from grader.golden import Golden, GoldenStore, make_golden
from grader.grading import Attempt, Graded, grade
from grader.judge.stand_in import GoldenJudge
from grader.proof.equivalence import differing_rows, free_texts, unlike_declared
from grader.proof.further import further
from grader.proof.mutants import LEAST_MUTANTS, Episode, Mutant, catalogue
from grader.proof.neighbours import Neighbours
from grader.world_base import BaseStore, WorldBase

GOLDEN_JUDGE = GoldenJudge()
FRESH, REUSE = episode_pb2.SLOT_MODE_FRESH, episode_pb2.SLOT_MODE_REUSE


@dataclass(slots=True)
class TaskProof:
    """What was found about one task; it is proved when `wrong` is empty."""

    task_id: str
    wrong: list[str] = field(default_factory=list)
    made: dict[str, int] = field(default_factory=dict)
    """Mutants by kind."""
    killed: dict[str, int] = field(default_factory=dict)
    equivalent: int = 0
    """Mutants that pass and are declared right."""
    no_mutants: int = 0
    """Runs of the catalogue that ended in the golden state, whose calls have no order, or that the tools
    refuse where only accepted ones count."""
    empty_passes: bool = False
    """Whether a run without calls passes where the task leaves that open."""
    idle_checks: list[str] = field(default_factory=list)
    """Names of checks that no wrong run has failed so far."""

    def saw(self, graded: Graded) -> None:
        """A check that fails a wrong run does its work."""
        failed = {result.name for result in graded.results if not result.passed}
        self.idle_checks = [name for name in self.idle_checks if name not in failed]


@dataclass(frozen=True, slots=True)
class _Held:
    """A golden source with one snapshot that is not written yet."""

    golden: Golden

    def load(self, task_id: str, task_hash: str, checks_hash: str) -> Golden:
        return self.golden


@dataclass(frozen=True, slots=True)
class _Start:
    """What a proof starts from."""

    golden: Golden
    base: WorldBase
    neighbours: Neighbours
    mutants: Sequence[Mutant]
    graded: Sequence[Graded]
    """An episode without calls that says nothing, and then what each mutant says after it."""


class Prover:
    """Proves tasks on one env-server; many at once."""

    def __init__(
        self,
        runs: FreshRuns,
        source: EvidenceClient,
        store: GoldenStore,
        bases: BaseStore,
        env_server: str,
        runner: CheckRunner,
    ):
        self._runs = runs
        self._source = source
        self._store = store
        self._bases = bases
        self._target = f"dns:///{env_server}"
        self._runner = runner
        self._worlds: dict[str, tuple[WorldBase, Neighbours]] = {}
        self._reading = asyncio.Lock()

    async def prove(self, task: task_pb2.Task, checks: CheckFile) -> TaskProof:
        """What was found; when nothing is wrong, the snapshot has been written."""
        names = [check.name for check in checks.checks]
        proof = TaskProof(task.ref.task_id, idle_checks=names)
        try:
            await self._prove(task, checks, proof)
        except EvidenceError as error:
            proof.wrong.append(error.message)
        return proof

    async def _prove(self, task: task_pb2.Task, checks: CheckFile, proof: TaskProof) -> None:
        finished, refusals = await with_more_tries(partial(self._golden_run, task, checks))
        if finished is None:
            proof.wrong.append(f"a golden call was refused: {refusals[0]}")
            return
        start = await with_more_tries(partial(self._empty_run, task, checks, finished))
        golden, mutants = start.golden, start.mutants
        empty, *said = start.graded
        proof.saw(empty)
        if empty.decision.status != "graded":
            proof.wrong.append(f"the empty run is ungradable: {empty.decision.reason}")
        elif checks.empty == "either":
            proof.empty_passes = empty.decision.reward == 1.0
        elif (empty.decision.reward == 1.0) != (checks.empty == "passes"):
            proof.wrong.append(f"the empty run does not do what `empty: {checks.empty}` says")
        proof.wrong += _count_said(checks, golden, _spoken(mutants, "empty"), said, proof)
        found = await asyncio.gather(
            self._prove_golden(task, checks, golden, mutants, proof),
            *(
                self._try(task, checks, golden, mutant, proof)
                for mutant in mutants
                if mutant.episode == "own"
            ),
        )
        proof.wrong += [fault for faults in found for fault in faults]
        tried = {mutant.name for mutant in mutants}
        if proof.made and not proof.wrong:
            known = free_texts(checks, golden)
            more = further(task, checks, start.neighbours, known, mutants)
            tried |= await self._try_more(task, checks, golden, more, proof)
        proof.wrong += [
            f"`equivalent` names {declared.mutant!r}, and there is no such mutant"
            for declared in checks.equivalent
            if declared.mutant not in tried
        ]
        if not proof.wrong:
            if not self._bases.has(start.base.initial_state_hash):
                self._bases.write(start.base)
            self._store.write(golden)

    async def _golden_run(
        self, task: task_pb2.Task, checks: CheckFile
    ) -> tuple[Evidence | None, Sequence[str]]:
        """How the golden run ends, or the refusals that it met."""
        async with self._runs.sealed(task, checks.golden.actions, FRESH) as (episode_id, refusals):
            if refusals:
                return None, refusals
            return await self._source.read(self._target, episode_id), ()

    async def _empty_run(
        self, task: task_pb2.Task, checks: CheckFile, finished: Evidence
    ) -> _Start:
        """What the proof starts from, and the verdicts on an episode without calls."""
        async with self._runs.sealed(task, [], FRESH) as (episode_id, _):
            untouched = await self._source.read(self._target, episode_id)
            golden = make_golden(checks.checks_hash, untouched, finished)
            base, neighbours = await self._world(untouched, episode_id)
            if checks.is_foreign and not self._bases.has(base.initial_state_hash):
                self._bases.write(base)
            # Who wrote a dataset's test knew nothing of our mutants, and it runs as it was written.
            mutants = (
                []
                if checks.is_foreign
                else catalogue(task, checks, neighbours, free_texts(checks, golden))
            )
            replies = ["", *(mutant.reply for mutant in _spoken(mutants, "empty"))]
            graded = await self._grade_each(task, checks, golden, episode_id, replies)
            return _Start(golden, base, neighbours, mutants, graded)

    async def _world(self, untouched: Evidence, empty_id: str) -> tuple[WorldBase, Neighbours]:
        """The world's initial state, read once for all its tasks."""
        key = untouched.initial_state_hash
        async with self._reading:
            if key not in self._worlds:
                if self._bases.has(key):
                    base = self._bases.load(key)
                else:
                    base = await self._source.read_world(self._target, empty_id)
                self._worlds[key] = (base, Neighbours(base))
        return self._worlds[key]

    async def _prove_golden(
        self,
        task: task_pb2.Task,
        checks: CheckFile,
        golden: Golden,
        mutants: Sequence[Mutant],
        proof: TaskProof,
    ) -> list[str]:
        """The second golden run, on whatever slot the world allows."""
        spoken = _spoken(mutants, "golden")
        replies = [checks.golden.reply, *(mutant.reply for mutant in spoken)]

        async def attempt() -> list[Graded]:
            async with self._runs.sealed(task, checks.golden.actions, REUSE) as (episode_id, _):
                return await self._grade_each(task, checks, golden, episode_id, replies)

        again, *said = await with_more_tries(attempt)
        if again.decision.reward != 1.0:
            return [f"the golden run does not pass: {_why(again)}"]
        if again.evidence is None or again.evidence.final_state_hash != golden.final_state_hash:
            return ["two golden runs end in different states"]
        return _count_said(checks, golden, spoken, said, proof)

    async def _try(
        self,
        task: task_pb2.Task,
        checks: CheckFile,
        golden: Golden,
        mutant: Mutant,
        proof: TaskProof,
    ) -> list[str]:
        run = partial(self._run, task, checks, golden, mutant)
        graded, refusals = await with_more_tries(run)
        return _count(checks, golden, mutant, graded, refusals, proof)

    async def _try_more(
        self,
        task: task_pb2.Task,
        checks: CheckFile,
        golden: Golden,
        more: Iterator[Mutant],
        proof: TaskProof,
    ) -> set[str]:
        """Try further mutants until there are enough or no more; the names of those that were tried."""
        tried: set[str] = set()
        while batch := list(islice(more, max(0, LEAST_MUTANTS - sum(proof.made.values())))):
            tried |= {mutant.name for mutant in batch}
            found = await asyncio.gather(
                *(self._try(task, checks, golden, mutant, proof) for mutant in batch)
            )
            proof.wrong += [fault for faults in found for fault in faults]
        return tried

    async def _run(
        self, task: task_pb2.Task, checks: CheckFile, golden: Golden, mutant: Mutant
    ) -> tuple[Graded, Sequence[str]]:
        *first, last = mutant.runs
        for actions in first:
            async with self._runs.sealed(task, actions, REUSE, until_refused=True) as run:
                episode_id, refusals = run
                if not refusals:
                    return await self._grade(task, checks, golden, episode_id, mutant.reply), ()
        async with self._runs.sealed(task, last, REUSE) as (episode_id, refusals):
            return await self._grade(task, checks, golden, episode_id, mutant.reply), refusals

    async def _grade_each(
        self,
        task: task_pb2.Task,
        checks: CheckFile,
        golden: Golden,
        episode_id: str,
        replies: Sequence[str],
    ) -> list[Graded]:
        """One after the other, each of these last words after an episode that is there."""
        return [await self._grade(task, checks, golden, episode_id, reply) for reply in replies]

    async def _grade(
        self, task: task_pb2.Task, checks: CheckFile, golden: Golden, episode_id: str, reply: str
    ) -> Graded:
        attempt = Attempt(task_id=task.ref.task_id, task_hash=task.ref.task_hash, final_reply=reply)
        state = EpisodeState(self._source, self._target, episode_id)
        runner = self._runner.asking(GOLDEN_JUDGE) if checks.is_foreign else self._runner
        return await grade(attempt, checks, _Held(golden), state, runner)


def _spoken(mutants: Sequence[Mutant], episode: Episode) -> list[Mutant]:
    """Mutants that only say something else at the end of the golden or the empty episode."""
    return [mutant for mutant in mutants if mutant.episode == episode]


def _count_said(
    checks: CheckFile,
    golden: Golden,
    spoken: Sequence[Mutant],
    said: Sequence[Graded],
    proof: TaskProof,
) -> list[str]:
    """Faults of the mutants that only say something else, of which `said` are the verdicts."""
    return [
        fault
        for mutant, graded in zip(spoken, said, strict=True)
        for fault in _count(checks, golden, mutant, graded, (), proof)
    ]


def _count(
    checks: CheckFile,
    golden: Golden,
    mutant: Mutant,
    graded: Graded,
    refusals: Sequence[str],
    proof: TaskProof,
) -> list[str]:
    """Count a mutant that was graded; empty when the checks catch it, else what is wrong."""
    if mutant.must_run and refusals:
        return [f"the mutant {mutant.name!r} cannot be run: {refusals[0]}"]
    if mutant.only_if_accepted and refusals:
        proof.no_mutants += 1
        return []
    if graded.evidence is None or graded.decision.status != "graded":
        return [f"the mutant {mutant.name!r} is ungradable: {graded.decision.reason}"]
    proof.saw(graded)
    declared = next((e for e in checks.equivalent if e.mutant == mutant.name), None)
    passes = graded.decision.reward == 1.0
    if passes and not mutant.must_run and declared is None:
        same_end = graded.evidence.final_state_hash == golden.final_state_hash
        is_golden = same_end and mutant.reply == checks.golden.reply
        # Two calls that the tools accept in either order, with a right end, have no order.
        if is_golden or (mutant.kind == "order broken" and not refusals):
            proof.no_mutants += 1
            return []
    proof.made[mutant.kind] = proof.made.get(mutant.kind, 0) + 1
    if not passes:
        proof.killed[mutant.kind] = proof.killed.get(mutant.kind, 0) + 1
        if declared is None:
            return []
        return [f"`equivalent` declares {mutant.name!r}, which the checks catch: take it out"]
    rows = differing_rows(graded.evidence.changes, golden.as_changes())
    if declared is None:
        where = f"it ends otherwise than golden in {rows}" if rows else "it ends as golden does"
        return [f"the mutant {mutant.name!r} is not caught: {_why(graded)}; {where}"]
    proof.equivalent += 1
    unlike = unlike_declared(declared, rows)
    return [unlike] if unlike else []


def _why(graded: Graded) -> str:
    failed = [f"{r.name}: {r.observed}" for r in graded.results if not r.passed]
    return graded.decision.reason or "; ".join(failed) or "every check passed"
