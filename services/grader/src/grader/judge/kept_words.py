"""What the judge said in one grading, kept so that the verdict can be reached again without it."""

from typing import Protocol

from envfarm.canonical import content_hash

from grader.judge.cache import Word
from grader.judge.judge import Answer, NoAnswer
from grader.verdict import CannotRun

Words = dict[str, str]
"""Hash of what was asked → yes or no, or what was said instead after UNCLEAR; and under `IDENTITY` who
was asked."""
IDENTITY = "identity"
UNCLEAR = "?"


class Asked(Protocol):
    """Whoever answers yes or no."""

    @property
    def identity(self) -> str: ...

    async def ask(self, question: str, text: str) -> Answer: ...


class Recorded:
    """A judge whose words are kept in `words`."""

    def __init__(self, judge: Asked, words: Words):
        self._judge = judge
        self._words = words
        words[IDENTITY] = judge.identity

    @property
    def identity(self) -> str:
        return self._judge.identity

    async def ask(self, question: str, text: str) -> Answer:
        try:
            answer = await self._judge.ask(question, text)
        except NoAnswer as error:
            self._words[_key(question, text)] = UNCLEAR + error.said
            raise
        self._words[_key(question, text)] = answer.word
        return answer


class KeptWords:
    """Answers from kept words only; CannotRun for a question that nobody had asked."""

    def __init__(self, words: Words):
        self._words = words

    @property
    def identity(self) -> str:
        return self._words.get(IDENTITY, "")

    async def ask(self, question: str, text: str) -> Answer:
        said = self._words.get(_key(question, text))
        if said is not None and said.startswith(UNCLEAR):
            raise NoAnswer(said[len(UNCLEAR) :])
        word: Word | None = "yes" if said == "yes" else "no" if said == "no" else None
        if word is None:
            raise CannotRun("the judge was not asked this then, and a regrade asks no model")
        return Answer(word, cached=True)


def _key(question: str, text: str) -> str:
    return content_hash([question, text])
