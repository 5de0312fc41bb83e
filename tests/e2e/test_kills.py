"""Real Postgres, Valkey, vLLM and DeepSpeed: groups become steps, and kills lose and repeat nothing."""

import json
from pathlib import Path

import pytest

from tests.support.polling import wait_until
from tests.support.whole_run import WholeRun

UPDATES = 4


@pytest.mark.timeout(900)
def test_a_killed_env_server_gateway_or_learner_loses_and_repeats_nothing(tmp_path: Path):
    with WholeRun(tmp_path, updates=UPDATES) as run:
        run.submit()
        wait_until(lambda: run.job().rollouts_running > 0, "attempts run", 120)
        run.kill("env-server")
        wait_until(lambda: run.job().groups_published >= 1, "a group is published", 300)
        run.kill("learner")
        wait_until(lambda: run.job().rollouts_running > 0, "attempts run", 120)
        run.kill("gateway")
        run.wait_for_learner()
        run.wait_for_job(60)
        ids, steps = run.ids(), run.steps()
        versions = json.loads((tmp_path / "gateway" / "versions.json").read_text())

    assert run.kills == {"env-server": 1, "gateway": 1, "learner": 1}
    assert len(ids.published) == UPDATES
    assert set(ids.published.values()) == {1}
    assert ids.published == ids.on_redis == ids.consumed == ids.trained == ids.trained_on_redis
    assert ids.left_on_stream == 0
    assert [step["update"] for step in steps] == list(range(1, UPDATES + 1))
    assert all(step["stepped"] for step in steps)
    assert max(step["mismatch_gap"] for step in steps) < 1e-4
    assert versions["gap"] < 1e-4
