"""Ten thousand random lives of a training job."""

import time

import pytest

from tests.support.proof import write_proof
from tests.support.stream_history import History

HISTORIES = 10_000


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_ten_thousand_histories_end_and_each_group_in_them_ends_once():
    started, steps, after_faults = time.monotonic(), [], []
    for seed in range(HISTORIES):
        history = History(1_000_000 + seed)
        steps.append(history.run())
        after_faults.append(steps[-1] - history.faults_until)
    write_proof(
        "stream_histories",
        {
            "histories": HISTORIES,
            "most_steps": max(steps),
            "most_steps_after_faults_stopped": max(after_faults),
            "seconds": round(time.monotonic() - started, 1),
        },
    )
