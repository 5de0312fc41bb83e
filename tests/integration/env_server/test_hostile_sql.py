"""Hostile SQL: refused, or undone, or the slot goes; the next episode never knows."""

import tempfile
from pathlib import Path

from tests.support.hostile_run import all_cases

CATEGORIES = 12


async def test_no_hostile_statement_reaches_the_next_episode():
    with tempfile.TemporaryDirectory() as folder:
        run = await all_cases(Path(folder))
    assert run.problems == []
    assert len(run.categories) == CATEGORIES and min(run.categories.values()) >= 3
    assert run.undone > run.dropped > 0
