"""Which of many tasks a demonstration takes when it does not take all."""

from collections import Counter

import pytest

from envfarm_cli.demo.experiment import spread

IDS = [f"counter/{workflow}-{number}" for workflow in "abcd" for number in range(6)]


@pytest.mark.parametrize("wanted", [4, 8, 12, 16, 20])
def test_each_workflow_gives_equally_many_of_its_tasks(wanted: int):
    taken = spread(IDS, wanted)
    assert len(set(taken)) == wanted
    assert set(Counter(task.split("-")[0] for task in taken).values()) == {wanted // 4}


@pytest.mark.parametrize("wanted", [0, 24, 100])
def test_all_are_taken_when_no_number_or_too_large_a_one_is_asked_for(wanted: int):
    assert spread(IDS, wanted) == IDS


def test_no_task_gives_none():
    assert spread([], 4) == spread([], 0) == []
