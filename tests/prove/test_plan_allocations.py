"""What the plan says ZeRO 3 keeps, against every live tensor of a small model after an update. On CPU
device and main memory are one, so offloaded parts count in the same sum."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import live_memory_script
from tests.support.learner_process import ROOT
from tests.support.proof import write_proof

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1500)]


def test_what_is_kept_is_what_the_plan_says(tmp_path: Path):
    found = {}
    for offload in ("none", "optimizer", "all"):
        done = subprocess.run(
            [sys.executable, live_memory_script.__file__, str(tmp_path / offload), offload],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=450,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found[offload] = json.loads(done.stdout.strip().splitlines()[-1])
    for offload, figures in found.items():
        assert figures["live"] == pytest.approx(figures["planned"], rel=0.01), offload
    write_proof("plan-allocations", found)
