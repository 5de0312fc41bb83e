"""A Postgres that the env-server did not start, in a process of its own; for back end `server`.

    with given_postgres() as dsn: ...

Run as a script (with -P, as env_server.py stands beside it) it starts one, prints its DSN and ends when its standard input is closed.
"""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from envfarm_common import logging
from envfarm_common.binaries import find_postgres

from env_server.postgres import EmbeddedPostgres


@contextlib.contextmanager
def given_postgres(*, wheels: bool = True) -> Iterator[str]:
    """The superuser's DSN of a fresh Postgres that ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, folder, str(int(wheels))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout and process.stdin
        try:
            dsn = process.stdout.readline().strip()
            assert dsn, "the given Postgres did not start"
            yield dsn
        finally:
            process.stdin.close()
            process.wait(120)
            process.stdout.close()


async def _serve(folder: Path, wheels: bool) -> None:
    postgres = await EmbeddedPostgres.start(
        find_postgres(wheels=wheels),
        state_dir=folder,
        memory_dir=Path("/dev/shm"),
        max_connections=150,
        user="nobody",
    )
    print(postgres.conninfo, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await postgres.stop()


if __name__ == "__main__":
    logging.configure("given-postgres", "warning")
    asyncio.run(_serve(Path(sys.argv[1]), bool(int(sys.argv[2]))))
