"""Runs one check on what is to be judged; each kind's rule stands in `checks/`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envfarm.errors import ConfigError
from envfarm_common import logging

from grader.check_kinds import Check, DatasetTest
from grader.checks import dataset_test, python, reply, rubric, sql, state, untouched
from grader.checkset import Checkset
from grader.dataset_effects import TABLE
from grader.evidence import Evidence
from grader.golden import Golden
from grader.judge.cache import AnswerCache
from grader.judge.judge import Judge
from grader.judge.kept_words import Asked, KeptWords, Recorded, Words
from grader.sandbox.sandbox import Sandbox, obstacle
from grader.settings import EvidenceSettings
from grader.verdict import CannotRun, CheckResult, UpstreamVerdict
from grader.world_base import BaseStore

JUDGE_HINT = "set GRADER_JUDGE_URL and GRADER_JUDGE_MODEL"
log = logging.get(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """Everything that a check may look at."""

    evidence: Evidence
    golden: Golden
    reply: str
    query: Callable[[str], Awaitable[Sequence[str]]]
    """Rows of a read-only query on the sealed state as JSON; CannotRun when the query is at fault."""
    words: Words = field(default_factory=dict)
    """Filled with what the judge said."""
    conversation: Sequence[Mapping[str, Any]] | None = None
    """Messages in a dataset's form; None when they were not sent."""
    upstream: list[UpstreamVerdict] = field(default_factory=list)
    """Filled with the verdict of the harness that the task comes from."""


class CheckRunner:
    """Has what single checks need beyond the evidence: a judge, a sandbox, and how worlds start."""

    def __init__(
        self,
        judge: Asked | None = None,
        sandbox: Sandbox | None = None,
        bases: BaseStore | None = None,
    ):
        self._judge = judge
        self._sandbox = sandbox
        self._bases = bases

    def asking(self, judge: Asked) -> "CheckRunner":
        """The same with another judge."""
        return CheckRunner(judge, self._sandbox, self._bases)

    def without_model(self, words: Mapping[str, str]) -> "CheckRunner":
        """A runner that knows the judge's words of an earlier grading, and asks nobody."""
        return self.asking(KeptWords(dict(words)))

    async def run(self, check: Check, seen: Seen) -> CheckResult:
        """The result. CannotRun when the check has no answer; GraderError when the judge is out of
        reach."""
        match check.kind:
            case "state":
                return state.run(check, seen.evidence, seen.golden)
            case "untouched":
                return untouched.run(check, seen.evidence)
            case "reply":
                return reply.run(check, seen.reply)
            case "sql":
                return sql.run(check, await seen.query(check.query))
            case "rubric":
                if self._judge is None:
                    raise CannotRun(f"no judge is configured: {JUDGE_HINT}")
                return await rubric.run(check, seen.reply, Recorded(self._judge, seen.words))
            case "python":
                if self._sandbox is None:
                    raise CannotRun("there is no sandbox")
                rows = {name: await seen.query(query) for name, query in check.rows.items()}
                return await python.run(check, seen.evidence, seen.reply, rows, self._sandbox)
            case "dataset_test":
                return await self._dataset_test(check, seen)

    async def _dataset_test(self, check: DatasetTest, seen: Seen) -> CheckResult:
        if self._sandbox is None:
            raise CannotRun("there is no sandbox")
        initial: Sequence[str] = ()
        if TABLE in seen.evidence.tables:
            if self._bases is None:
                raise CannotRun("how the world's servers start is not known here")
            base = self._bases.load(seen.golden.initial_state_hash)
            initial = base.tables[TABLE].rows
        return await dataset_test.run(
            check,
            seen.evidence,
            seen.golden,
            initial,
            seen.reply,
            seen.conversation,
            self._sandbox,
            Recorded(self._judge, seen.words) if self._judge else None,
            seen.upstream,
        )


def make_judge(settings: EvidenceSettings) -> Judge | None:
    """The judge that the settings name; None when they name none."""
    if not settings.judge_url:
        return None
    return Judge(
        settings.judge_url,
        settings.judge_model,
        api_key=settings.judge_api_key.get_secret_value(),
        timeout_seconds=settings.judge_timeout_seconds,
        cache=AnswerCache(settings.judge_cache_dir),
    )


def make_runner(
    checkset: Checkset, judge: Asked | None, bases: BaseStore | None = None
) -> CheckRunner:
    """A runner for the checks of the set. Without a judge tasks with a rubric are ungradable, which
    is logged at start-up; ConfigError where code of checks has no sandbox."""
    kinds: dict[str, str] = {}
    for task_id in checkset.task_ids():
        for check in checkset.find(task_id).checks:
            kinds.setdefault(check.kind, f"{task_id}: check {check.name!r}")
    if "rubric" in kinds and judge is None:
        log.warning("tasks with a rubric are ungradable", first=kinds["rubric"], hint=JUDGE_HINT)
    code = kinds.get("python") or kinds.get("dataset_test")
    if code and (reason := obstacle()):
        raise ConfigError(
            f"{code} runs code and this machine offers no sandbox: {reason}",
            hint="serve such tasks on Linux with seccomp, or write the check as sql",
        )
    return CheckRunner(judge, Sandbox() if code else None, bases)
