"""A state folder for one command, so that it disturbs no running stack; gone when the command ends."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from envfarm_cli.state_dir import StateDir


@contextmanager
def state_apart(parent: StateDir, purpose: str) -> Iterator[StateDir]:
    """A fresh folder inside `parent`."""
    parent.make()
    apart = StateDir(Path(tempfile.mkdtemp(prefix=f"{purpose}-", dir=parent.path)))
    try:
        # The env-server's Postgres may run under another account.
        apart.path.chmod(0o711)
        apart.make()
        yield apart
    finally:
        shutil.rmtree(apart.path, ignore_errors=True)
