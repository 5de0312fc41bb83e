"""The desk dataset of tests/support/hosted_desk as hosted worlds, imported and pinned as a user does."""

import os
import shutil
from pathlib import Path

from envfarm_cli.main import main

DESK = Path(__file__).parent / "hosted_desk"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where a Python is that the accounts of servers can run."""


def import_desk(folder: Path, *options: str) -> Path:
    """Worlds in `folder`/worlds, without pinned tools."""
    environment = folder / "environment"
    (environment / "bin").mkdir(parents=True, exist_ok=True)
    python = shutil.which("python3", path=SYSTEM_PATH)
    assert python
    link = environment / "bin" / "python"
    if not link.exists():
        os.symlink(python, link)
    code = main(
        [
            *("import", "thinkingbox", "--dataset", str(DESK / "dataset")),
            *("--servers", str(DESK / "servers.yaml"), "--worlds", str(folder / "worlds")),
            *("--environment", str(environment), *options),
            *("--variable", f"PYTHONPATH={DESK / 'servers'}", "--json"),
        ]
    )
    assert code == 0
    return folder / "worlds"


def pin_desk(worlds: Path) -> None:
    state = worlds.parent / "state"
    options = ("--domains", str(worlds), "--state-dir", str(state), "--json")
    assert main(["world", "pin", "desk_tasks", *options]) == 0
