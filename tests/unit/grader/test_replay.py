import asyncio
from pathlib import Path

import pytest
from envfarm.errors import GraderError, InvalidArgument

from grader.claims import Claims
from grader.record_store import RecordStore
from grader.replay import Replay


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def new_replay(folder: Path, capacity: int = 10) -> Replay:
    return Replay(RecordStore(folder), Claims(folder / "claims"), capacity, wait_seconds=5)


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


async def test_the_same_id_is_answered_once_and_replayed(folder: Path):
    replay, source = new_replay(folder), Source("v1", "v2")
    answers = await asyncio.gather(*(replay.answer("r", "f", source) for _ in range(3)))
    assert answers == ["v1"] * 3
    assert await replay.answer("r", "f", source) == "v1"
    assert source.calls == 1


async def test_the_same_id_with_other_content_is_refused(folder: Path):
    replay = new_replay(folder)
    await replay.answer("r", "f", Source("v"))
    with pytest.raises(InvalidArgument, match="another request"):
        await replay.answer("r", "g", Source("w"))


async def test_a_failure_is_not_remembered(folder: Path):
    replay, source = new_replay(folder), Source(GraderError("down"), "v")
    with pytest.raises(GraderError):
        await replay.answer("r", "f", source)
    assert await replay.answer("r", "f", source) == "v"


async def test_a_caller_that_goes_away_does_not_take_the_answer_along(folder: Path):
    replay, source = new_replay(folder), Source("v")
    first = asyncio.ensure_future(replay.answer("r", "f", source))
    await asyncio.sleep(0)
    first.cancel()
    assert await replay.answer("r", "f", source) == "v"
    assert source.calls == 1


async def test_only_the_newest_answers_are_kept_in_memory(folder: Path):
    replay, source = new_replay(folder, 2), Source("a", "b", "c", "a again")
    for name in ("a", "b", "c"):
        await replay.answer(name, "f", source)
    assert await replay.answer("a", "f", source) == "a again"
    assert source.calls == 4


async def test_an_answer_that_is_on_disk_is_not_made_again_and_binds_its_content(folder: Path):
    record = {"fingerprint": "f", "verdict": {"verdict_id": "v-12345678"}}
    RecordStore(folder).put_verdict("v-12345678", record, "r")
    assert await new_replay(folder).answer("r", "f", Source()) == record
    with pytest.raises(InvalidArgument, match="another request"):
        await new_replay(folder).answer("r", "g", Source())
