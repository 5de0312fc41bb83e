"""`python -m env_server`: settings from ENV_SERVER_* variables, then serve."""

import sys

from envfarm_common import lifecycle, logging
from envfarm_common.settings import load

from env_server.app import serve
from env_server.settings import Settings


async def main() -> None:
    settings = load(Settings)
    logging.configure("env-server", settings.log_level)
    await serve(settings)


if __name__ == "__main__":
    sys.exit(lifecycle.run(main))
