"""Random lives of a training job: each group ends once, and each job ends."""

import pytest

from tests.support.stream_history import History


@pytest.mark.parametrize("hundred", range(3))
def test_every_history_ends_and_each_group_in_it_ends_once(hundred: int):
    for seed in range(100 * hundred, 100 * (hundred + 1)):
        History(seed).run()
