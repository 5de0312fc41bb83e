"""The learning demo, each of its processes killed with SIGKILL and it started again: nothing is lost.

A short demo; whether it learns is not asked here. `make demo-proofs` runs the whole one, with three
seeds and the control.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from envfarm_cli import records
from tests.support.envfarm_command import descendants, none_alive, until
from tests.support.proof import write_proof

ROOT = Path(__file__).parents[2]
MINUTES = 4
"""Five updates."""
DONE = (0, 3)


class Demo:
    def __init__(self, runs: Path):
        self.runs = runs

    @property
    def folder(self) -> Path:
        return next(path for path in self.runs.iterdir() if path.is_dir())

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "envfarm_cli", "demo", "--minutes", str(MINUTES)]
        return subprocess.Popen(
            [*command, "--runs", str(self.runs), "--json"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def stage(self, name: str) -> dict:
        try:
            stages = json.loads((self.folder / "stages.json").read_text())["stages"]
        except (FileNotFoundError, StopIteration):
            return {}
        return stages.get(name, {})

    def runs_stage(self, name: str) -> bool:
        return self.stage(name).get("state") == "running"

    def steps(self) -> list[dict]:
        path = self.folder / "training" / "learner" / "steps.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def attempts(self, job: str) -> int:
        paths = (self.folder / "gateway" / "jobs").glob(f"*{job}*/attempts.jsonl")
        return sum(len(path.read_text().splitlines()) for path in paths)


def process_of(command: subprocess.Popen[str], words: str) -> int | None:
    """The process below the demo whose command line holds `words`."""
    for identity in descendants(command.pid):
        try:
            line = Path(f"/proc/{identity.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except FileNotFoundError:
            continue
        if words in line and "preexec" not in line:
            return identity.pid
    return None


def kill_at(demo: Demo, victim: str, words: str, moment: Callable[[], object]) -> None:
    """Start the demo, kill one process once `moment()` is true, and see that all of it ends."""
    command = demo.start()
    assert until(lambda: moment() or command.poll() is not None, 1200), victim
    assert command.poll() is None, command.communicate()[1]
    family = descendants(command.pid)
    pid = command.pid if victim == "command" else process_of(command, words)
    assert pid is not None, victim
    os.kill(pid, signal.SIGKILL)
    _, err = command.communicate(timeout=120)
    assert "Traceback" not in err
    assert none_alive(family, 60), victim
    if victim != "command":
        assert command.returncode == 1, err


@pytest.mark.prove
@pytest.mark.timeout(5400)
def test_a_demo_whose_every_process_is_killed_once_loses_and_repeats_nothing(tmp_path: Path):
    for folder in (tmp_path, *tmp_path.parents):
        if folder != Path("/") and folder.stat().st_uid == os.getuid():
            folder.chmod(folder.stat().st_mode | 0o011)
    demo = Demo(tmp_path / "runs")
    demo.runs.mkdir()
    moments: list[tuple[str, str, Callable[[], object]]] = [
        ("command", "", lambda: demo.runs_stage("warm-start")),
        ("grader", "-m grader", lambda: demo.attempts(".probe.") > 3),
        ("gateway", "rollout_gateway", lambda: demo.attempts(".before.") > 3),
        ("learner", "learner train", lambda: len(demo.steps()) >= 1),
        ("env-server", "env_server", lambda: len(demo.steps()) >= 2),
        ("engine", "vllm serve", lambda: len(demo.steps()) >= 3),
        ("valkey", "valkey-server", lambda: len(demo.steps()) >= 4),
        ("command", "", lambda: demo.attempts(".after.") > 3),
    ]
    for victim, words, moment in moments:
        kill_at(demo, victim, words, moment)
    command = demo.start()
    out, err = command.communicate(timeout=2400)
    assert command.returncode in DONE, err
    summary = json.loads(out)

    gateway, learner = demo.folder / "gateway", demo.folder / "training" / "learner"
    published = Counter(
        outcome.group_id
        for outcome in records.outcomes(gateway, f"{summary['run_id']}.train")
        if outcome.WhichOneof("end") == "published"
    )
    ledger = [json.loads(line) for line in (learner / "groups.jsonl").read_text().splitlines()]
    consumed = Counter(line["group_id"] for line in ledger)
    trained = Counter(line["group_id"] for line in ledger if line["fate"] == "trained")
    steps = {step["update"]: step for step in demo.steps()}
    stepped = Counter(group for step in steps.values() for group in step["groups"])
    write_proof(
        "demo-kills",
        {
            "minutes": MINUTES,
            "kills": [victim for victim, _, _ in moments],
            "starts": summary["starts"],
            "published": len(published),
            "consumed": sum(consumed.values()),
            "trained": len(trained),
            "updates": len(steps),
            "before": summary["before"]["attempts"],
            "after": summary["after"]["attempts"],
        },
    )
    assert set(published.values()) == {1} and set(trained.values()) == {1}
    assert trained == stepped
    assert set(consumed) <= set(published)
    assert sorted(steps) == list(range(1, summary["updates"] + 1))
    for side in ("before", "after"):
        found = summary[side]
        assert found["attempts"] >= found["tasks"] * found["k"]
    again = demo.start()
    out, _ = again.communicate(timeout=120)
    assert again.returncode == command.returncode
    assert json.loads(out) == summary
