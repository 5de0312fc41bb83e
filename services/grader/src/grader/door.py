"""What answers a request, whichever door it came through."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from envfarm.errors import EvidenceError, InvalidArgument, NoChecks
from envfarm_common import logging, tracing
from envfarm_common.metrics import Instruments

from grader import file_rows
from grader.allow_list import AllowList
from grader.ask import Ask
from grader.check_run import CheckRunner
from grader.checkset import CheckFile, Checkset
from grader.dsn_state import DsnState
from grader.dsn_targets import DsnTargets
from grader.evidence_client import EpisodeState, EvidenceClient
from grader.evidence_kinds import from_document, to_document
from grader.golden import Golden, GoldenStore
from grader.grading import Attempt, FinalState, Graded, grade
from grader.reading import TableShape
from grader.record_store import RecordStore
from grader.replay import Record, Replay
from grader.scratch import Scratch
from grader.seen_tables import SeenTables
from grader.stored_state import StoredState
from grader.table_state import Spellings, TableState
from grader.verdict_wire import decided, to_json, to_proto
from grader.world_base import BaseStore, WorldBase

MAX_AT_ONCE = 32
"""Gradings of one process at once; the others wait their turn."""


FILES_SHAPE = TableShape(
    name=file_rows.TABLE,
    columns=file_rows.COLUMNS,
    types=file_rows.TYPES,
    generated=(False,) * len(file_rows.COLUMNS),
    nullable=file_rows.NULLABLE,
    key_columns=file_rows.KEY,
    collated=frozenset(file_rows.KEY),
    is_binary=False,
)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where final states come from."""

    episodes: EvidenceClient
    env_servers: AllowList
    databases: DsnTargets
    scratch: Scratch
    bases: BaseStore
    database_timeout_seconds: float


@dataclass(frozen=True, slots=True)
class _Held:
    """A golden source with one snapshot that was kept beside a verdict."""

    golden: Golden

    def load(self, task_id: str, task_hash: str, checks_hash: str) -> Golden:
        return self.golden


class GradeDoor:
    """Grades, regrades, and tells verdicts that were given."""

    def __init__(
        self,
        checkset: Checkset,
        golden: GoldenStore,
        sources: Sources,
        instruments: Instruments,
        runner: CheckRunner,
        store: RecordStore,
        replay: Replay,
    ):
        self._checkset = checkset
        self._golden = golden
        self._sources = sources
        self._instruments = instruments
        self._runner = runner
        self._store = store
        self._replay = replay
        self._turns = asyncio.Semaphore(MAX_AT_ONCE)
        self._seen = SeenTables()
        self._spellings: dict[str, Spellings] = {}
        self._rules_kept: dict[str, str] = {}

    async def grade(self, ask: Ask) -> dict[str, Any]:
        """The verdict as JSON; raises an EnvfarmError when there can be none."""
        record = await self._replay.answer(
            ask.request_id, ask.fingerprint, lambda: self._grade(ask)
        )
        return record["verdict"]

    async def regrade(self, verdict_id: str, checks: str) -> dict[str, Any]:
        """The verdict of kept evidence by `checks`: current, original, or the hash of their rules.

        Where checks, grader and evidence are those of a verdict that is kept, the answer is that
        verdict, byte for byte, after it has been computed anew and found equal. Asks no model.
        """
        record = self._store.verdict(verdict_id)
        file, golden = self._rules(record, checks)
        document = self._store.evidence(record["verdict"]["evidence_hash"])
        evidence, reply, said = from_document(document, record["verdict"]["episode_id"])
        attempt = Attempt(
            task_id=evidence.task_id,
            task_hash=evidence.task_hash,
            final_reply=reply,
            conversation=said,
        )
        sources = self._sources
        state = StoredState(evidence, record["answers"], sources.bases, sources.scratch)
        runner = self._runner.without_model(record["words"])
        async with self._turns:
            source = self._golden if golden is None else _Held(golden)
            graded = await grade(attempt, file, source, state, runner)
        made = self._record(
            record["verdict"]["request_id"], "", attempt, file, graded, input="stored"
        )
        return self._reproduced(made)

    def verdict(self, verdict_id: str) -> dict[str, Any]:
        """A verdict that is kept; UnknownVerdict when it is not."""
        return self._store.verdict(verdict_id)["verdict"]

    async def schema(self, task_id: str) -> dict[str, Any]:
        """What a `state` of this task must hold: tables, columns, types, keys; and its task hash."""
        checks_hash = self._checkset.find(task_id).checks_hash
        try:
            golden = self._golden.latest(task_id, checks_hash)
            base = self._sources.bases.load(golden.initial_state_hash)
        except EvidenceError as error:
            raise NoChecks(
                f"{task_id} has not been proved: {error.message}", hint=error.hint
            ) from error
        shapes = dict((await self._sources.scratch.held(base)).shapes)
        if file_rows.TABLE in base.tables:
            shapes[file_rows.TABLE] = FILES_SHAPE
        return {
            "task_id": task_id,
            "task_hash": golden.task_hash,
            "world_id": base.world_id,
            "world_hash": base.world_hash,
            "world_now": base.world_now,
            "initial_state_hash": base.initial_state_hash,
            "tables": {
                name: {
                    "columns": {
                        column: {"type": kind, "nullable": nullable}
                        for column, kind, nullable in zip(
                            shape.columns, shape.types, shape.nullable, strict=True
                        )
                    },
                    "key": list(shape.key_columns),
                    "initial_rows": len(base.tables[name].rows),
                }
                for name, shape in sorted(shapes.items())
            },
        }

    async def _grade(self, ask: Ask) -> Record:
        attempt = Attempt(
            task_id=ask.task_id,
            task_hash=ask.task_hash,
            final_reply=ask.final_reply,
            conversation=ask.conversation,
        )
        file = self._checkset.find(ask.task_id)
        episode_id = ask.episode[1] if ask.episode else ""
        with logging.bind(episode_id=episode_id, request_id=ask.request_id):
            async with self._turns, self._final_state(ask, file) as state:
                with tracing.span("grade", task_id=ask.task_id, episode_id=episode_id):
                    graded = await grade(attempt, file, self._golden, state, self._runner)
        self._count(attempt, graded, ask.input)
        record = self._record(
            ask.request_id, ask.fingerprint, attempt, file, graded, input=ask.input
        )
        verdict_id = record["verdict"]["verdict_id"]
        self._store.put_verdict(verdict_id, record, ask.request_id)
        return record

    @contextlib.asynccontextmanager
    async def _final_state(self, ask: Ask, file: CheckFile) -> AsyncIterator[FinalState]:
        sources = self._sources

        def base() -> WorldBase:
            golden = self._golden.load(ask.task_id, ask.task_hash, file.checks_hash)
            return sources.bases.load(golden.initial_state_hash)

        if ask.episode:
            address, episode_id = ask.episode
            yield EpisodeState(sources.episodes, sources.env_servers.target(address), episode_id)
        elif ask.dsn:
            pinned = await sources.databases.pin(ask.dsn)
            async with DsnState(
                ask.task_id,
                ask.task_hash,
                base,
                pinned,
                self._seen,
                sources.scratch,
                sources.database_timeout_seconds,
            ) as state:
                yield state
        elif ask.state is not None:
            async with TableState(
                ask.task_id,
                ask.task_hash,
                base,
                self._spelled,
                ask.state,
                self._seen,
                sources.scratch,
            ) as state:
                yield state
        else:
            raise InvalidArgument("nothing says what to grade")

    def _spelled(self, base: WorldBase) -> Spellings:
        known = self._spellings.get(base.initial_state_hash)
        if known is None:
            known = self._spellings[base.initial_state_hash] = Spellings(base)
        return known

    def _record(
        self,
        request_id: str,
        fingerprint: str,
        attempt: Attempt,
        file: CheckFile,
        graded: Graded,
        *,
        input: str,
    ) -> Record:
        """The verdict with what it takes to reach it again; evidence and rules are kept here."""
        evidence_hash = rules_hash = ""
        if graded.evidence:
            document = to_document(graded.evidence, attempt.final_reply, attempt.conversation)
            evidence_hash = self._store.put_evidence(document)
        if graded.golden:
            rules_hash = self._rules_kept.get(graded.checks_hash, "")
            if not rules_hash:
                rules_hash = self._store.put_rules(
                    {"checks": file.model_dump(mode="json"), "golden": graded.golden.model_dump()}
                )
                self._rules_kept[graded.checks_hash] = rules_hash
        verdict = to_proto(request_id, attempt, graded, input=input, evidence_hash=evidence_hash)
        verdict.rules_hash = rules_hash
        return {
            "fingerprint": fingerprint,
            "verdict": to_json(verdict),
            "answers": {query: list(rows) for query, rows in graded.answers.items()},
            "words": dict(graded.words),
            "graded_at": time.time(),
        }

    def _rules(self, record: Record, checks: str) -> tuple[CheckFile, Golden | None]:
        """The checks to judge by, and their golden snapshot; None for the one of the folder."""
        verdict = record["verdict"]
        task_id = verdict["task"]["task_id"]
        if checks == "current":
            return self._checkset.find(task_id), None
        rules = self._store.rules(verdict["rules_hash"] if checks == "original" else checks)
        file = CheckFile.model_validate(rules["checks"])
        if file.task != task_id:
            raise NoChecks(f"the rules {checks[:12]} are for {file.task}, not for {task_id}")
        return file, Golden.model_validate(rules["golden"])

    def _reproduced(self, made: Record) -> dict[str, Any]:
        verdict = made["verdict"]
        kept = self._store.find_verdict(verdict["verdict_id"])
        if kept is None:
            self._store.put_verdict(verdict["verdict_id"], made)
            return verdict
        if decided(kept["verdict"]) != decided(verdict):
            before = decided(kept["verdict"])
            now = decided(verdict)
            differing = sorted(k for k in before.keys() | now if before.get(k) != now.get(k))
            raise EvidenceError(
                f"the verdict {verdict['verdict_id']} cannot be reproduced: {', '.join(differing)}",
                hint="same checks, grader and evidence, another result: report it",
            )
        return kept["verdict"]

    def _count(self, attempt: Attempt, graded: Graded, input: str) -> None:
        reward = graded.decision.reward
        self._instruments.count(
            "envfarm_verdicts_total",
            domain=attempt.task_id.partition("/")[0],
            status=graded.decision.status,
            reward="none" if reward is None else str(int(reward)),
        )
        for result in graded.results:
            self._instruments.count(
                "envfarm_checks_total", kind=result.kind, passed=str(result.passed).lower()
            )
        self._instruments.observe("envfarm_grade_seconds", graded.seconds, input=input)
