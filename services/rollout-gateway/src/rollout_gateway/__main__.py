"""`python -m rollout_gateway`: serve, with settings from GATEWAY_* variables."""

import sys

from envfarm_common import lifecycle, logging
from envfarm_common.settings import load

from rollout_gateway.app import serve
from rollout_gateway.settings import Settings


async def main() -> None:
    settings = load(Settings)
    logging.configure("rollout-gateway", settings.log_level)
    await serve(settings)


if __name__ == "__main__":
    sys.exit(lifecycle.run(main))
