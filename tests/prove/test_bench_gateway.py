"""The gateway's figures, held to their aims: beside vLLM's own benchmark, and with a policy that costs nothing."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.envfarm_command import Envfarm
from tests.support.proof import write_proof

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]
RATIO = 0.95
"""Of vLLM's own benchmark, on a CPU that engine and gateway share."""
FEWEST_A_SECOND = 60
"""Episodes of 5 calls on two cores, env-server and grader included."""
LIVE = 512


def bench(tmp_path: Path, *options: str) -> dict[str, Any]:
    done = Envfarm(tmp_path).run("bench", "gateway", *options, "--json", seconds=1500)
    assert done.code == 0, done.err
    return done.json


def test_the_gateway_keeps_its_aims(tmp_path: Path):
    figures = bench(tmp_path)
    write_proof("bench-gateway", figures)
    assert figures["wrong_rewards"] == figures["refilled"] == 0
    assert figures["ratio"] >= RATIO
    assert figures["episodes_per_second_instant_policy"] >= FEWEST_A_SECOND


def test_one_gateway_keeps_512_episodes_alive(tmp_path: Path):
    figures = bench(
        tmp_path, "--no-engine", "--concurrency", str(LIVE), "--episodes", str(4 * LIVE)
    )
    write_proof("bench-gateway-live", figures)
    assert figures["live_episodes"] >= LIVE
    assert figures["wrong_rewards"] == figures["refilled"] == 0
