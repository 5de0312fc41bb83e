"""`python -m learner train --config FILE [--set section.key=value …]`.

SIGTERM and SIGINT end the run between two updates, after a checkpoint; exit status 0. A second
signal ends the process at once, which loses nothing that a checkpoint holds. Errors with a name are
one line on stderr and exit status 1; 2 is a wrong command line.
"""

import argparse
import errno
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from envfarm.errors import EnvfarmError

from learner import config


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m learner")
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train until run.updates")
    check = commands.add_parser("check", help="print the resolved configuration's recipe hash")
    for command in (train, check):
        command.add_argument("--config", type=Path, required=True, help="a TOML file")
        command.add_argument(
            "--set", action="append", default=[], metavar="A.B=VALUE", help="override one key"
        )
    options = parser.parse_args(arguments)
    try:
        resolved = config.load(options.config, options.set)
        if options.command == "check":
            print(resolved.recipe_hash())
            return 0
        stop = _stop_on_signals()
        # Libraries and the compilers they start print to stdout; ours is for results.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        from learner import session  # torch and DeepSpeed take seconds to import

        session.run(resolved, stop)
    except EnvfarmError as error:
        hint = f" — {error.hint}" if error.hint else ""
        print(f"error: {type(error).__name__}: {error.message}{hint}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f"{error.filename}: " if error.filename else "run.dir or its disk: "
        print(
            f"error: {where}{error.strerror or error} — free some room there and start again; "
            "the run goes on from its last checkpoint",
            file=sys.stderr,
        )
        return 1
    return 0


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()

    def on_signal(number: int, _: FrameType | None) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    return stop


if __name__ == "__main__":
    raise SystemExit(main())
