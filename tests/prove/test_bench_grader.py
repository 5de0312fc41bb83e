"""Figures of the grader by each of its three inputs, beside their floors from the same run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.proof import write_proof

ROOT = Path(__file__).parents[2]


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_gradings_by_three_inputs_are_timed_and_every_verdict_is_right():
    command = [sys.executable, "-m", "envfarm_cli", "bench", "grader", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    write_proof("bench-grader", figures)
    assert figures["ok"]
    assert 9 <= figures["world"]["json_mb"]
    assert figures["floor_p50_ms"] > 0
