"""One grading: find checks and golden snapshot, read evidence, run checks, decide."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from envfarm.canonical import content_hash
from envfarm.errors import EvidenceError, InvalidArgument

from grader.checks import reply, sql, state, untouched
from grader.checkset import Check, CheckFile
from grader.evidence import Evidence
from grader.golden import Golden, contradictions
from grader.verdict import CannotRun, CheckResult, Decision, decide


class EvidenceSource(Protocol):
    """Where evidence comes from; both raise what `evidence_client.py` says."""

    async def read(self, target: str, episode_id: str) -> Evidence: ...

    async def query(self, target: str, episode_id: str, query: str) -> Sequence[str]: ...


class GoldenSource(Protocol):
    """Where the golden snapshot comes from; EvidenceError when there is none to trust."""

    def load(self, task_id: str, task_hash: str, checks_hash: str) -> Golden: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """What is to be graded: a sealed episode, the task it claims, and the agent's last words."""

    task_id: str
    task_hash: str
    target: str
    episode_id: str
    final_reply: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Graded:
    """A decision with everything that led to it."""

    decision: Decision
    results: Sequence[CheckResult]
    evidence: Evidence | None
    checks_hash: str
    seconds: float


async def grade(
    attempt: Attempt, checks: CheckFile, golden_source: GoldenSource, source: EvidenceSource
) -> Graded:
    """Grade an attempt. Trouble on the way to the env-server is raised, never a verdict."""
    started = time.perf_counter()
    results: list[CheckResult] = []
    obstacles: list[str] = []
    evidence: Evidence | None = None
    checks_hash = checks.checks_hash
    try:
        evidence = await source.read(attempt.target, attempt.episode_id)
        _require_same_task(attempt, evidence)
        golden = golden_source.load(attempt.task_id, attempt.task_hash, checks.checks_hash)
        checks_hash = content_hash([checks.checks_hash, golden.digest()])
        obstacles += contradictions(evidence, golden)
        for check in checks.checks if not obstacles else ():
            try:
                results.append(await _run(check, attempt, evidence, golden, source))
            except CannotRun as error:
                obstacles.append(f"check {check.name!r} cannot run: {error}")
    except EvidenceError as error:
        obstacles.append(error.message)
    return Graded(
        decision=decide(results, obstacles),
        results=results,
        evidence=evidence,
        checks_hash=checks_hash,
        seconds=time.perf_counter() - started,
    )


async def _run(
    check: Check, attempt: Attempt, evidence: Evidence, golden: Golden, source: EvidenceSource
) -> CheckResult:
    match check.kind:
        case "state":
            return state.run(check, evidence, golden)
        case "untouched":
            return untouched.run(check, evidence)
        case "reply":
            return reply.run(check, attempt.final_reply)
        case "sql":
            rows = await source.query(attempt.target, attempt.episode_id, check.query)
            return sql.run(check, rows)


def _require_same_task(attempt: Attempt, evidence: Evidence) -> None:
    if attempt.task_id != evidence.task_id:
        raise InvalidArgument(
            f"episode {attempt.episode_id} runs {evidence.task_id}, not {attempt.task_id}"
        )
    if attempt.task_hash != evidence.task_hash:
        raise InvalidArgument(
            f"episode {attempt.episode_id} runs {attempt.task_id} with another content than task_hash",
            hint="send the task_hash that the episode was opened with",
        )
