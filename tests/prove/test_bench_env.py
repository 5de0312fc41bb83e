"""Figures of whole episodes, beside their floor from the same run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.proof import write_proof

ROOT = Path(__file__).parents[2]


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_whole_episodes_are_timed_and_every_verdict_is_right():
    command = [sys.executable, "-m", "envfarm_cli", "bench", "env", "--episodes", "4000"]
    done = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    write_proof("bench-env", figures)
    assert figures["wrong_verdicts"] == 0
    assert figures["floor"]["call_p50_ms"] > 0
