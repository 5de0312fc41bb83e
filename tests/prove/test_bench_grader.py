"""The grader's figures by each of its three inputs, held to their aims, beside their floors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.proof import write_proof

ROOT = Path(__file__).parents[2]
MOST_MS = {
    "grade_p50_ms": 10,
    "grade_p99_ms": 60,
    "by_dsn_p50_ms": 60,
    "by_dsn_p99_ms": 300,
    "by_json_p50_ms": 60,
    "by_json_p99_ms": 300,
}
"""On two cores that do nothing else, a world of 10 MB."""
FEWEST_A_SECOND = 100


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
    # No grader is held to more than the bare read of the same tables by psycopg.
    most_ms = MOST_MS | {"by_dsn_p50_ms": max(60, figures["floor_dsn_p50_ms"])}
    late = {name: figures[name] for name, most in most_ms.items() if figures[name] > most}
    assert late == {}
    assert figures["grades_per_second"] >= FEWEST_A_SECOND
