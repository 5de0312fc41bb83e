"""A judge without a model, for proving tasks: it knows the golden replies and answers both ways.

To a question about the golden reply of a task it says what the rubric expects, to one about any
other text the opposite. So it proves everything about a task but the wording of its questions,
which only a real judge can prove.
"""

from grader.checkset import GOLDEN_REPLY, Checkset
from grader.judge.cache import Word
from grader.judge.judge import Answer
from grader.verdict import CannotRun


class StandInJudge:
    """Answers the rubrics of one set of checks."""

    identity = "stand-in without a model"

    def __init__(self, checkset: Checkset):
        self._expected: dict[str, dict[str, Word]] = {}
        for task_id in checkset.task_ids():
            file = checkset.find(task_id)
            for check in file.checks:
                if check.kind == "rubric":
                    known = self._expected.setdefault(check.question, {})
                    known[file.golden.reply] = check.expect

    async def ask(self, question: str, text: str) -> Answer:
        """CannotRun for a question that no rubric of the set asks."""
        known = self._expected.get(question)
        if known is None:
            raise CannotRun("no rubric asks this question")
        if text in known:
            return Answer(known[text], cached=True)
        expected = next(iter(known.values()))
        return Answer("no" if expected == "yes" else "yes", cached=True)


class GoldenJudge:
    """For proving tasks of a dataset, which tell no golden reply: yes to every question about the words
    that stand for one, no to all others. So their state is proved, and no wording."""

    identity = "stand-in without a model"

    async def ask(self, question: str, text: str) -> Answer:
        return Answer("yes" if text == GOLDEN_REPLY else "no", cached=True)
