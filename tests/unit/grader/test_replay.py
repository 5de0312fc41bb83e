import asyncio

import pytest
from envfarm.errors import GraderError, InvalidArgument

from grader.replay import Replay


class Source:
    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.calls = 0

    async def __call__(self):
        self.calls += 1
        await asyncio.sleep(0)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def test_the_same_id_is_answered_once_and_replayed():
    replay, source = Replay(10), Source("v1", "v2")
    answers = await asyncio.gather(*(replay.answer("r", "f", source) for _ in range(3)))
    assert answers == ["v1"] * 3
    assert await replay.answer("r", "f", source) == "v1"
    assert source.calls == 1


async def test_the_same_id_with_other_content_is_refused():
    replay = Replay(10)
    await replay.answer("r", "f", Source("v"))
    with pytest.raises(InvalidArgument, match="another request"):
        await replay.answer("r", "g", Source("w"))


async def test_a_failure_is_not_remembered():
    replay, source = Replay(10), Source(GraderError("down"), "v")
    with pytest.raises(GraderError):
        await replay.answer("r", "f", source)
    assert await replay.answer("r", "f", source) == "v"


async def test_a_caller_that_goes_away_does_not_take_the_answer_along():
    replay, source = Replay(10), Source("v")
    first = asyncio.ensure_future(replay.answer("r", "f", source))
    await asyncio.sleep(0)
    first.cancel()
    assert await replay.answer("r", "f", source) == "v"
    assert source.calls == 1


async def test_only_the_newest_answers_are_kept():
    replay, source = Replay(2), Source("a", "b", "c", "a again")
    for name in ("a", "b", "c"):
        await replay.answer(name, "f", source)
    assert await replay.answer("a", "f", source) == "a again"
    assert source.calls == 4
