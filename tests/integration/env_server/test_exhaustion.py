"""Nothing left to give: no connections, no disk. Opens are refused with a hint; then all goes on."""

import asyncio
import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from envfarm.errors import EnvfarmError, NoCapacity

from tests.support.env_server import SHELF, EnvClient, running_env_server
from tests.support.given_postgres import given_postgres

EMMA = "shelf/lend-emma"
SMALL = {"max_episodes": 8, "ready_low": 1, "ready_high": 1, "keepers": 4}


async def open_until_refused(client: EnvClient) -> NoCapacity:
    with pytest.raises(NoCapacity) as refusal:
        for _ in range(8):
            await client.open(EMMA)
    return refusal.value


async def open_when_possible(client: EnvClient) -> object:
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(NoCapacity):
                return await client.open(EMMA)
            await asyncio.sleep(0.05)


async def test_a_postgres_without_free_connections_refuses_opens_and_recovers():
    with given_postgres() as dsn, contextlib.ExitStack() as hogs:
        with running_env_server(backend="server", dsn=dsn, **SMALL) as server:
            async with server.client() as client:
                living = await client.open(EMMA)
                with contextlib.suppress(psycopg.OperationalError):
                    while True:
                        hogs.enter_context(psycopg.connect(dsn))
                refusal = await open_until_refused(client)
                assert refusal.retry_after_seconds > 0
                # Who has a slot goes on, up to its evidence.
                assert not (await client.call(living, "find_book", book_id="B-1")).is_error
                await client.call(living, "lend_book", book_id="B-1", reader_id="R-1")
                await client.seal(living)
                _, changes, _ = await client.evidence(living)
                assert len(changes) == 1
                hogs.close()
                await open_when_possible(client)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 160 MB; only root can make one."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        command = ["mount", "-t", "tmpfs", "-o", "size=160m,mode=755", "tmpfs", folder]
        if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("no file system can be mounted here")
        yield Path(folder)
        subprocess.run(["umount", "-l", folder], check=True)


async def test_a_full_disk_refuses_opens_and_recovers(small_disk: Path):
    with running_env_server(SHELF, small_disk, memory_dir="", **SMALL) as server:
        async with server.client() as client:
            await client.open(EMMA)
            ballast = small_disk / "ballast"
            with ballast.open("wb") as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(1 << 20))
            with pytest.raises(EnvfarmError) as refusal:
                for _ in range(8):
                    await client.open(EMMA)
            assert refusal.value.retry_after_seconds > 0
            ballast.unlink()
            fresh = await open_when_possible(client)
            assert not (await client.call(fresh, "find_book", book_id="B-1")).is_error
