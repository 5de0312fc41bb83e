"""Full rounds: a run whose processes are killed at random points, again and again."""

import json
import random
from pathlib import Path

import pytest

from tests.support.proof import write_proof
from tests.support.whole_run import WholeRun

UPDATES = 12
ROUNDS = 10
SEED = 1
VICTIMS = ("env-server", "gateway", "learner", "grader")


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_random_kills_lose_and_repeat_nothing(tmp_path: Path):
    choice = random.Random(SEED)
    with WholeRun(tmp_path, updates=UPDATES) as run:
        run.submit()
        for _ in range(ROUNDS):
            learner = run.stack.find("learner")
            assert learner is not None
            if learner.exit_status == 0:
                break
            run.submit_when_trained()
            run.pause(choice.uniform(0.0, 12.0))
            run.kill(choice.choice(VICTIMS))
        run.wait_for_learner(1800)
        run.wait_for_job(120)
        ids, steps = run.ids(), run.steps()
        versions = json.loads((tmp_path / "gateway" / "versions.json").read_text())

    same = ids.published == ids.on_redis == ids.consumed == ids.trained == ids.trained_on_redis
    write_proof(
        "kill-rounds",
        {
            "seed": SEED,
            "updates": UPDATES,
            "kills": dict(run.kills),
            "published": len(ids.published),
            "consumed": sum(ids.consumed.values()),
            "trained": sum(ids.trained.values()),
            "equal_as_multisets": same,
            "left_on_stream": ids.left_on_stream,
            "max_mismatch_gap_nats": max(step["mismatch_gap"] for step in steps),
            "probe_gap_nats": versions["gap"],
        },
    )
    assert same
    assert set(ids.published.values()) == {1}
    assert len(ids.trained) == len(steps) == UPDATES
    assert sum(run.kills.values()) >= 5
    assert ids.left_on_stream == 0
