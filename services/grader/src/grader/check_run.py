"""Runs one check on what is to be judged; each kind's rule stands in `checks/`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from envfarm.errors import ConfigError
from envfarm_common import logging

from grader.check_kinds import Check
from grader.checks import python, reply, rubric, sql, state, untouched
from grader.checkset import Checkset
from grader.evidence import Evidence
from grader.golden import Golden
from grader.judge.cache import AnswerCache
from grader.judge.judge import Judge
from grader.judge.kept_words import Asked, KeptWords, Recorded, Words
from grader.sandbox.sandbox import Sandbox, obstacle
from grader.settings import EvidenceSettings
from grader.verdict import CannotRun, CheckResult

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


class CheckRunner:
    """Has what single checks need beyond the evidence: a judge and a sandbox."""

    def __init__(self, judge: Asked | None = None, sandbox: Sandbox | None = None):
        self._judge = judge
        self._sandbox = sandbox

    def without_model(self, words: Mapping[str, str]) -> "CheckRunner":
        """A runner that knows the judge's words of an earlier grading, and asks nobody."""
        return CheckRunner(KeptWords(dict(words)), self._sandbox)

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


def make_runner(checkset: Checkset, judge: Asked | None) -> CheckRunner:
    """A runner for the checks of the set. Without a judge tasks with a rubric are ungradable, which
    is logged at start-up; ConfigError where python checks have no sandbox."""
    kinds: dict[str, str] = {}
    for task_id in checkset.task_ids():
        for check in checkset.find(task_id).checks:
            kinds.setdefault(check.kind, f"{task_id}: check {check.name!r}")
    if "rubric" in kinds and judge is None:
        log.warning("tasks with a rubric are ungradable", first=kinds["rubric"], hint=JUDGE_HINT)
    if "python" in kinds and (reason := obstacle()):
        raise ConfigError(
            f"{kinds['python']} runs code and this machine offers no sandbox: {reason}",
            hint="serve such tasks on Linux with seccomp, or write the check as sql",
        )
    return CheckRunner(judge, Sandbox() if "python" in kinds else None)
