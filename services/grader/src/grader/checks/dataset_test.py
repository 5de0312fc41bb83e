"""`dataset_test`: the test function of a ThinkingBox dataset, with two verdicts on one run.

As upstream: no exception passes, an assertion fails, anything else is a system error; an answer of the
judge counts as yes when its first or last word is yes, and as no otherwise.
As envfarm: the same, but an answer that is neither yes nor no is none (the check cannot run), a test that
has a judge and found no question to ask it cannot run either, and a reward below 1 is not passed.

The function runs in the sandbox. When it asks the judge something new it stops, the judge is asked, and
it runs again from the start with the answer.
"""

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from grader import dataset_effects
from grader.check_kinds import DatasetTest
from grader.evidence import Evidence
from grader.golden import Golden
from grader.judge.judge import NoAnswer
from grader.judge.kept_words import Asked
from grader.sandbox.sandbox import Outcome, Sandbox
from grader.verdict import CannotRun, CheckResult, UpstreamVerdict

HARNESS = "thinkingbox"
MAX_QUESTIONS = 100
REPEATS = "Does the first message repeat what the second message says?"
_PUNCTUATION = str.maketrans(dict.fromkeys(".,;:\n", " "))


class _Words:
    """What the judge said in one grading, by what it was asked."""

    def __init__(self, judge: Asked):
        self.judge = judge
        self.answers: dict[str, bool] = {}
        self.unclear = ""
        self.tokens = 0

    async def learn(self, key: str) -> None:
        """Ask, and remember the answer as upstream reads it. GraderError when nobody can be asked."""
        question, text = asked(json.loads(key))
        try:
            answer = await self.judge.ask(question, text)
        except NoAnswer as error:
            self.unclear = self.unclear or str(error)
            self.answers[key] = upstream_yes(error.said)
            return
        self.tokens += answer.tokens
        self.answers[key] = answer.word == "yes"


async def run(
    check: DatasetTest,
    evidence: Evidence,
    golden: Golden,
    initial: Sequence[str],
    reply: str,
    conversation: Sequence[Mapping[str, Any]] | None,
    sandbox: Sandbox,
    judge: Asked | None,
    upstream: list[UpstreamVerdict],
) -> CheckResult:
    """The verdict as envfarm; that as upstream is added to `upstream`, whatever becomes of ours.

    `initial` are the rows of the servers' effects before the first call.
    """
    effects = dataset_effects.completed(
        dataset_effects.told(initial, evidence.changes),
        dataset_effects.told(initial, golden.as_changes()),
        check.kept,
    )
    context = {"response": reply, "effects": effects, "messages": conversation}
    words = _Words(judge) if judge else None
    try:
        outcome = await _played(check.code, context, sandbox, words)
    except CannotRun as error:
        upstream.append(_verdict(False, 0.0, True, str(error), 0))
        raise
    detail = json.loads(outcome.detail)
    if outcome.outcome == "error":
        upstream.append(_verdict(False, 0.0, True, detail["why"], detail["line"]))
        raise CannotRun(f"the test failed otherwise than by an assertion: {detail['why']}")
    passed = outcome.outcome == "pass"
    reward = detail["reward"] if passed else 0.0
    why = "" if passed else detail["why"]
    upstream.append(_verdict(passed, reward, False, why, detail.get("line", 0)))
    if words and words.unclear:
        raise CannotRun(words.unclear)
    if passed and not detail["asked"] and asks_listed_questions(check.code):
        raise CannotRun("the test has questions for a judge in a list, and the list is empty")
    return CheckResult(
        name=check.name,
        kind=check.kind,
        passed=reward == 1.0,
        expected="the test ends without an assertion and with reward 1",
        observed=f"reward {reward:g}" if passed else f"line {detail['line']}: {why}",
        judge=words.judge.identity if words and words.answers else "",
        judge_tokens=words.tokens if words else 0,
    )


async def _played(
    code: str, context: dict[str, Any], sandbox: Sandbox, words: _Words | None
) -> Outcome:
    """The outcome once every question has its answer."""
    for _ in range(MAX_QUESTIONS + 1):
        outcome = await sandbox.run_test(code, context, words.answers if words else {})
        if outcome.outcome != "ask":
            return outcome
        if words is None:
            raise CannotRun("no judge is configured: set GRADER_JUDGE_URL and GRADER_JUDGE_MODEL")
        await words.learn(outcome.detail)
    raise CannotRun(f"the test asks the judge more than {MAX_QUESTIONS} questions")


def asked(request: Mapping[str, str]) -> tuple[str, str]:
    """Question and text of what a test asks, as our judge takes them."""
    pair = {key: request[key] for key in ("first", "second") if key in request}
    told = json.dumps(pair, ensure_ascii=False)
    match request["method"]:
        case "text_yesno":
            return request["question"], request["text"]
        case "compare_yesno":
            return f"The text holds two messages as JSON. {request['question']}", told
        case "repeats":
            return f"The text holds two messages as JSON. {REPEATS}", told
        case "yesno":
            return request["question"], ""
        case _:
            return request["system"], request["user"]


def upstream_yes(said: str) -> bool:
    """Whether an answer counts as yes there."""
    words = said.translate(_PUNCTUATION).split()
    return bool(words) and "yes" in (words[0].lower(), words[-1].lower())


def asks_listed_questions(code: str) -> bool:
    """Whether the test hands its judge on, in a file that looks up a list of rubrics."""
    tree = ast.parse(code)
    alias = tree.body[-1]
    assert isinstance(alias, ast.Assign) and isinstance(alias.value, ast.Name)
    name = alias.value.id
    own = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    uses_judge = any(
        isinstance(node, ast.Name) and node.id == "judge" for f in own for node in ast.walk(f)
    )
    names_rubrics = any(
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("rubrics")
        for node in ast.walk(tree)
    )
    return uses_judge and names_rubrics


def _verdict(
    result: bool, reward: float, is_system_error: bool, detail: str, line: int
) -> UpstreamVerdict:
    return UpstreamVerdict(
        harness=HARNESS,
        result=result,
        reward=reward,
        is_system_error=is_system_error,
        detail=detail,
        line=line,
    )
