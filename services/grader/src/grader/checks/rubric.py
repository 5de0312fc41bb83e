"""`rubric`: a narrow question about the final reply, answered by a judge."""

from grader.check_kinds import RubricCheck
from grader.judge.kept_words import Asked
from grader.verdict import CheckResult


async def run(check: RubricCheck, reply: str, judge: Asked) -> CheckResult:
    if len(reply) > check.max_characters:
        # A limit on the agent, and so its failure: else a long reply would escape the judge.
        tokens = 0
        passed, observed = False, f"{len(reply)} characters, at most {check.max_characters}"
    else:
        answer = await judge.ask(check.question, reply)
        tokens = answer.tokens
        passed, observed = answer.word == check.expect, answer.word
    return CheckResult(
        name=check.name,
        kind=check.kind,
        passed=passed,
        expected=f"{check.expect}: {' '.join(check.question.split())}",
        observed=observed,
        judge=judge.identity,
        judge_tokens=tokens,
    )
