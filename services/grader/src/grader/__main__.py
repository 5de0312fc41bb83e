"""`python -m grader [--workers N]`: serve, with settings from GRADER_* variables."""

import argparse
import sys
from collections.abc import Sequence

from envfarm.errors import EnvfarmError
from envfarm_common import lifecycle, logging
from envfarm_common.settings import load

from grader.app import serve
from grader.settings import Settings
from grader.workers import run_workers


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m grader",
        description="Serve verdicts over HTTP and gRPC until SIGTERM.",
        epilog="Everything else is set by GRADER_* variables; a start without them names each.",
    )
    parser.add_argument("--workers", type=int, help="processes behind the ports; GRADER_WORKERS")
    given = {k: v for k, v in vars(parser.parse_args(argv)).items() if v is not None}

    class WithFlags(Settings):
        def __init__(self) -> None:
            super().__init__(**given)

    several: list[Settings] = []

    async def job() -> None:
        settings = load(WithFlags)
        logging.configure("grader", settings.log_level)
        if settings.workers > 1:
            several.append(settings)
        else:
            await serve(settings)

    status = lifecycle.run(job)
    if not several:
        return status
    # Outside any event loop, because workers are forked.
    try:
        return run_workers(several[0])
    except EnvfarmError as error:
        failed = error
    return lifecycle.run(lambda: _failing(failed))


async def _failing(error: EnvfarmError) -> None:
    raise error


if __name__ == "__main__":
    sys.exit(main())
