"""`envfarm demo --scripted`: 8 scripted attempts become one group that moves the weights."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(900)
def test_the_demo_turns_eight_attempts_into_new_weights(tmp_path: Path):
    for folder in (tmp_path, *tmp_path.parents):
        if folder != Path("/") and folder.owner() == tmp_path.owner():
            folder.chmod(folder.stat().st_mode | 0o011)
    command = [sys.executable, "-m", "envfarm_cli", "demo", "--scripted", "--json"]
    command += ["--state-dir", str(tmp_path / "state"), "--runs", str(tmp_path / "runs")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary == json.loads((tmp_path / "runs" / "summary.json").read_text())
    assert summary["ok"] and all(summary["checks"].values())
    assert len(summary["published"]) == 1
    assert summary["published"] == summary["consumed"] == summary["trained"]
    assert summary["weights"]["first"] != summary["weights"]["last"]
    assert summary["proofs"]["tasks"] == summary["proofs"]["passed"] == 12
    assert summary["probe_gap_nats"] < 1e-4
