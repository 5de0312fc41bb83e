"""The order of conversations: a function of seed and step, with folders weighted as asked."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from learner.schedule import share
from learner.sft import order
from learner.sft.conversations import Conversation, Folder


def folder(name: str, count: int, weight: float) -> Folder:
    return Folder(
        conversations=tuple(
            Conversation(
                rollout_id=f"{name}{i}",
                task_id="t",
                token_ids=np.zeros(2, dtype=np.int64),
                sampled=np.array([False, True]),
                reward=1.0,
            )
            for i in range(count)
        ),
        weight=weight,
    )


FOLDERS = (folder("a", 6, 1.0), folder("b", 4, 2.0), folder("c", 8, 0.5), folder("d", 0, 1.0))


def names(batches: list[list[Conversation]]) -> list[list[str]]:
    return [[one.rollout_id for one in batch] for batch in batches]


def test_an_epoch_holds_each_folder_as_often_as_its_weight_says():
    counts = Counter(one.rollout_id for one in order.epoch(FOLDERS, 1, 0))
    assert [counts[f"a{i}"] for i in range(6)] == [1] * 6
    assert [counts[f"b{i}"] for i in range(4)] == [2] * 4
    assert sum(counts[f"c{i}"] for i in range(8)) == 4
    assert counts.total() == order.epoch_size(FOLDERS) == 18


def test_epochs_differ_and_seeds_differ_and_equal_ones_are_equal():
    first = order.epoch(FOLDERS, 1, 0)
    assert first == order.epoch(FOLDERS, 1, 0)
    assert first != order.epoch(FOLDERS, 1, 1)
    assert first != order.epoch(FOLDERS, 2, 0)


@pytest.mark.parametrize("first", [0, 1, 4, 9])
@pytest.mark.parametrize("size", [1, 5, 18, 40])
def test_a_start_at_any_step_goes_on_as_the_whole_run_would(first: int, size: int):
    whole = list(islice(order.batches(FOLDERS, 3, size, 0), 12))
    later = list(islice(order.batches(FOLDERS, 3, size, first), 12 - first))
    assert names(later) == names(whole[first:])


def test_epochs_are_counted_in_steps():
    assert order.steps(FOLDERS, 5, 1.0) == 4
    assert order.steps(FOLDERS, 18, 2.0) == 2
    assert order.steps(FOLDERS, 100, 0.1) == 1


def test_the_rate_rises_and_falls_as_written():
    rise = [share("constant", s, steps=10, warmup=4) for s in range(6)]
    assert rise == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert [share("linear", s, steps=4, warmup=0) for s in range(4)] == [1.0, 0.75, 0.5, 0.25]
    assert share("cosine", 2, steps=4, warmup=0) == pytest.approx(0.5)
    assert share("cosine", 7, steps=10, warmup=4) == pytest.approx(0.5)
