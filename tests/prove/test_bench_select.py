"""The figures of selection, aggregation and probing, held to their limits."""

import json
import subprocess
import sys

import pytest

from tests.support.envfarm_command import ROOT
from tests.support.proof import write_proof

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]


def test_selecting_aggregating_and_probing_keep_their_limits(tmp_path):
    command = [sys.executable, "-m", "envfarm_cli", "bench", "select", "--json"]
    done = subprocess.run(
        [*command, "--scratch", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    figures = json.loads(done.stdout)
    write_proof("bench-select", figures)
    above = {name for name, limit in figures["limits"].items() if figures[name] > limit}
    assert above == set()
