"""A learner as its own process, on the tiny model."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.polling import wait_until
from tests.support.recording_gateway import TOKEN

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "learner/configs/tiny-cpu.toml"


def make_tiny_model(folder: Path, text: Path, seed: int = 5) -> Path:
    command = [sys.executable, "-m", "learner.tiny_model", "--out", folder, "--text", text]
    subprocess.run([*command, "--seed", str(seed)], check=True, timeout=240, capture_output=True)
    return folder


class LearnerProcess:
    """`python -m learner train` with overrides; killed with the block if it still runs."""

    def __init__(self, run_dir: Path, **overrides: object):
        self.run_dir = run_dir
        run_dir.mkdir(parents=True, exist_ok=True)
        settings = {"run.id": "run", "run.dir": run_dir, **overrides}
        command = [sys.executable, "-m", "learner", "train", "--config", str(CONFIG)]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "LEARNER_GATEWAY_TOKEN": TOKEN,
            # The model is too small to share, and other processes want the cores.
            "OMP_NUM_THREADS": "1",
        }
        self._stderr = (run_dir / "stderr.log").open("ab")
        self._stdout = (run_dir / "stdout.log").open("ab")
        self.process = subprocess.Popen(
            command, env=environment, cwd=run_dir, stderr=self._stderr, stdout=self._stdout
        )

    def __enter__(self) -> "LearnerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._stderr.close()
        self._stdout.close()

    def wait(self, seconds: float = 240) -> int:
        return self.process.wait(seconds)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait_for(self, what: str, condition, seconds: float = 240) -> None:
        """Poll; a learner that ends meanwhile fails the wait with its last words."""

        def met() -> bool:
            if condition():
                return True
            assert self.process.poll() is None, f"the learner ended: {self.stderr()[-2000:]}"
            return False

        wait_until(met, what, seconds)

    def stderr(self) -> str:
        return (self.run_dir / "stderr.log").read_text()

    def steps(self) -> list[dict]:
        return _lines(self.run_dir / "steps.jsonl")

    def groups(self) -> list[dict]:
        return _lines(self.run_dir / "groups.jsonl")

    def trained(self) -> list[str]:
        """Ids in the durable ledger that were trained on, sorted, repeats kept."""
        return sorted(r["group_id"] for r in self.groups() if r["fate"] == "trained")

    def checkpoints(self) -> list[Path]:
        return sorted((self.run_dir / "checkpoints").glob("checkpoint-*"))


def _lines(path: Path) -> list[dict]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]
