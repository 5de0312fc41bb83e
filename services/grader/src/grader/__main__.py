"""`python -m grader`: serve, with settings from GRADER_* variables."""

import sys

from envfarm_common import lifecycle, logging
from envfarm_common.settings import load

from grader.app import serve
from grader.settings import Settings


async def main() -> None:
    settings = load(Settings)
    logging.configure("grader", settings.log_level)
    await serve(settings)


if __name__ == "__main__":
    sys.exit(lifecycle.run(main))
