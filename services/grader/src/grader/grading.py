"""One grading: find checks and golden snapshot, read evidence, run checks, decide."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from envfarm.canonical import content_hash
from envfarm.errors import EvidenceError, InvalidArgument

from grader.check_run import CheckRunner, Seen
from grader.checkset import CheckFile
from grader.evidence import Evidence
from grader.golden import Golden, contradictions
from grader.verdict import CannotRun, CheckResult, Decision, UpstreamVerdict, decide


class FinalState(Protocol):
    """A final state that can be read, wherever it is."""

    async def read(self) -> Evidence:
        """The verified evidence; EvidenceError when it cannot be trusted."""
        ...

    async def query(self, query: str) -> Sequence[str]:
        """Rows of a read-only query as JSON; CannotRun when the query itself is at fault."""
        ...


class GoldenSource(Protocol):
    """Where the golden snapshot comes from; EvidenceError when there is none to trust."""

    def load(self, task_id: str, task_hash: str, checks_hash: str) -> Golden: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """What is to be graded: the task that was tried, and the agent's last words."""

    task_id: str
    task_hash: str
    final_reply: str
    conversation: Sequence[Mapping[str, Any]] | None = None
    """Messages in a dataset's form, where its test may look at them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Graded:
    """A decision with everything that led to it."""

    decision: Decision
    results: Sequence[CheckResult]
    evidence: Evidence | None
    answers: Mapping[str, Sequence[str]]
    """Query → its rows, for each query that was answered."""
    words: Mapping[str, str]
    """Question asked of the judge, by its hash → the answer."""
    checks_hash: str
    golden: Golden | None
    golden_hash: str
    evidence_seconds: float
    seconds: float
    upstream: UpstreamVerdict | None = None
    """What the harness that the task comes from makes of the attempt; None for tasks of our own."""


@dataclass(slots=True)
class _Recorded:
    """A final state whose answers are kept."""

    state: FinalState
    answers: dict[str, Sequence[str]] = field(default_factory=dict)

    async def query(self, query: str) -> Sequence[str]:
        if query not in self.answers:
            self.answers[query] = await self.state.query(query)
        return self.answers[query]


async def grade(
    attempt: Attempt,
    checks: CheckFile,
    golden_source: GoldenSource,
    state: FinalState,
    runner: CheckRunner,
) -> Graded:
    """Grade an attempt. Trouble on the way to its final state is raised, never a verdict."""
    started = time.perf_counter()
    results: list[CheckResult] = []
    obstacles: list[str] = []
    evidence: Evidence | None = None
    checks_hash, golden, golden_hash = checks.checks_hash, None, ""
    words: dict[str, str] = {}
    upstream: list[UpstreamVerdict] = []
    recorded = _Recorded(state)
    read_at = started
    try:
        evidence = await state.read()
        read_at = time.perf_counter()
        _require_same_task(attempt, evidence)
        golden = golden_source.load(attempt.task_id, attempt.task_hash, checks.checks_hash)
        golden_hash = golden.digest()
        checks_hash = content_hash([checks.checks_hash, golden_hash])
        obstacles += contradictions(evidence, golden)
        seen = Seen(
            evidence=evidence,
            golden=golden,
            reply=attempt.final_reply,
            query=recorded.query,
            words=words,
            conversation=attempt.conversation,
            upstream=upstream,
        )
        if evidence.leftovers:
            results.append(_left_behind(evidence.leftovers))
        for check in checks.checks if not obstacles else ():
            try:
                results.append(await runner.run(check, seen))
            except CannotRun as error:
                obstacles.append(f"check {check.name!r} cannot run: {error}")
    except EvidenceError as error:
        obstacles.append(error.message)
    return Graded(
        decision=decide(results, obstacles),
        results=results,
        evidence=evidence,
        answers=recorded.answers,
        checks_hash=checks_hash,
        words=words,
        golden=golden,
        golden_hash=golden_hash,
        evidence_seconds=read_at - started,
        seconds=time.perf_counter() - started,
        upstream=upstream[0] if upstream else None,
    )


def _left_behind(leftovers: Sequence[str]) -> CheckResult:
    """Whoever may create triggers and the like has not left the world as it should be."""
    return CheckResult(
        name="nothing left behind",
        kind="schema",
        passed=False,
        expected="no trigger, rule, policy, function or view but the world's own",
        observed="; ".join(leftovers),
    )


def _require_same_task(attempt: Attempt, evidence: Evidence) -> None:
    if attempt.task_id != evidence.task_id:
        raise InvalidArgument(
            f"episode {evidence.episode_id} runs {evidence.task_id}, not {attempt.task_id}"
        )
    if attempt.task_hash != evidence.task_hash:
        raise InvalidArgument(
            f"episode {evidence.episode_id} runs {attempt.task_id} with another content than task_hash",
            hint="send the task_hash that the episode was opened with",
        )
