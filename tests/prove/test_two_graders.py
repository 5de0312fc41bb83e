"""Two thousand random episodes, each judged by the grader and by a second, slow one."""

import time
from pathlib import Path

import pytest

from tests.support import desk_states
from tests.support.desk import DOMAINS, agreement, open_desk
from tests.support.env_server import running_env_server
from tests.support.proof import write_proof

EPISODES = 2_000


@pytest.mark.prove
@pytest.mark.timeout(1200)
async def test_two_graders_agree_on_two_thousand_random_episodes(tmp_path: Path):
    with running_env_server(DOMAINS) as server:
        async with open_desk(server, tmp_path / "golden") as desk:
            started = time.monotonic()
            counts = await agreement(desk, desk_states, episodes=EPISODES, seed=2)
            seconds = time.monotonic() - started
            kinds = sorted({c["kind"] for spec in desk.specs.values() for c in spec["checks"]})
    assert counts["episodes"] == EPISODES
    assert counts["reward_1"] >= 200 and counts["reward_0"] >= 200
    write_proof(
        "two-graders",
        {**counts, "disagreements": 0, "kinds": kinds, "seconds": round(seconds, 1)},
    )
