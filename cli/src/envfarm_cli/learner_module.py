"""A module of the learner that answers with one JSON object, run as a child: torch stays there."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envfarm_cli.failure import Failure
from envfarm_cli.service_specs import base_env
from envfarm_cli.state_dir import StateDir


def ask(module: str, arguments: Sequence[str | Path], state: StateDir, what: str) -> dict[str, Any]:
    """What it printed; its progress goes to our stderr. Failure with its last line when it failed."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=base_env(state),
        stdout=subprocess.PIPE,
        stderr=None if sys.stderr.isatty() else subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = (done.stderr or "").strip().splitlines()
        said = lines[-1].removeprefix("error: ") if lines else "see the lines above"
        raise Failure(f"{what}: {said}")
    return json.loads(done.stdout.strip().splitlines()[-1])
