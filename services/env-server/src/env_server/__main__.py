"""`python -m env_server [--workers N]`: serve, with settings from ENV_SERVER_* variables."""

import argparse
import sys
from collections.abc import Sequence

from envfarm_common import lifecycle, logging
from envfarm_common.settings import load

from env_server.app import serve
from env_server.settings import Settings
from env_server.workers import serve_workers

ABOUT = """\
Serve episodes on private Postgres databases until SIGTERM: their lifecycle over gRPC, their tools
over MCP and gRPC, health and metrics over HTTP.
"""
SETTINGS = """\
settings are variables (or files of that name in small letters in /run/secrets):
  ENV_SERVER_DOMAINS_DIR   folder of domains; only <domain>/world/ is read      (needed)
  ENV_SERVER_INFRA_TOKEN   opens the lifecycle; 16 characters or more           (needed)
  ENV_SERVER_GRADER_TOKEN  opens the evidence of sealed episodes                (needed)
  ENV_SERVER_STATE_DIR     for files where memory has no room                   (needed)
  ENV_SERVER_GRPC_PORT, ENV_SERVER_HTTP_PORT   0 takes a free one
  ENV_SERVER_MAX_EPISODES  live at once, all workers together (64)
  ENV_SERVER_READY_FILE    written as JSON with the addresses once it serves
a start with wrong ones names each; all of them are in env_server/settings.py

several workers: worker n listens on both ports plus n and registers itself in ENV_SERVER_REDIS_URL,
where gateways find them all (GATEWAY_ENV_SERVERS=redis); without that, name each address there. All
share one Postgres; limits are divided among them. Scrape the first: it tells the metrics of all.

example:
  ENV_SERVER_GRPC_PORT=9090 ENV_SERVER_HTTP_PORT=8080 python -m env_server --workers 4
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m env_server",
        description=ABOUT,
        epilog=SETTINGS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes, where one core is not enough; ENV_SERVER_WORKERS (1)",
    )
    given = {k: v for k, v in vars(parser.parse_args(argv)).items() if v is not None}

    class WithFlags(Settings):
        def __init__(self) -> None:
            super().__init__(**given)

    async def job() -> None:
        settings = load(WithFlags)
        logging.configure("env-server", settings.log_level)
        await (serve_workers if settings.workers > 1 else serve)(settings)

    return lifecycle.run(job)


if __name__ == "__main__":
    sys.exit(main())
