"""How a command of the learner ends: a status, and one line on stderr for what has a name."""

import errno
import os
import sys
from collections.abc import Callable
from typing import TextIO

from envfarm.errors import EnvfarmError


def run(command: Callable[[], None]) -> int:
    """0 when `command` returns; 1 after one line for an error with a name or a file that the disk
    refuses."""
    try:
        command()
    except EnvfarmError as error:
        hint = f" — {error.hint}" if error.hint else ""
        print(f"error: {type(error).__name__}: {error.message}{hint}", file=sys.stderr)
        return 1
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if not full and error.filename is None:
            raise
        where = f"{error.filename}: " if error.filename else "run.dir or its disk: "
        todo = "free some room there" if full else "mend that"
        print(
            f"error: {where}{error.strerror or error} — {todo} and start again; "
            "the run goes on from its last checkpoint",
            file=sys.stderr,
        )
        return 1
    return 0


def results_only() -> TextIO:
    """What stdout was: libraries and the compilers they start print there, ours is for results."""
    results = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return results
