"""What env-servers have made and left: databases, roles, processes, folders."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import psycopg


def names(dsn: str) -> set[str]:
    """Databases and roles with an env-server's label in the Postgres of `dsn`."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        rows = conn.execute(
            "SELECT datname FROM pg_database WHERE datname LIKE 'ef\\_%'"
            " UNION ALL SELECT rolname FROM pg_roles WHERE rolname LIKE 'ef\\_%'"
        ).fetchall()
    return {row[0] for row in rows}


def instances(dsn: str) -> set[str]:
    """Labels of the env-servers that own something there."""
    return {name.split("_")[1] for name in names(dsn)}


def folders(memory_dir: Path) -> list[Path]:
    """Cluster folders of embedded Postgres below `memory_dir`."""
    return sorted(memory_dir.glob("envfarm-pg-*"))


def processes(folder: Path) -> list[int]:
    """Postgres processes that run in a cluster folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink().is_relative_to(folder):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def postmaster(folder: Path) -> int:
    return int((folder / "data/postmaster.pid").read_text().splitlines()[0])


def segment(folder: Path) -> str:
    """Id of the System V segment that the Postgres of `folder` holds."""
    return (folder / "data/postmaster.pid").read_text().splitlines()[6].split()[1]


def shared_memory() -> set[str]:
    """Ids of all System V segments."""
    return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}


def wait_until(condition: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    """Poll until `condition` is true; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"still waiting: {what}"
        time.sleep(0.02)


async def wait_until_async(condition: Callable[[], object], what: str) -> None:
    """The same beside a running event loop."""
    await asyncio.to_thread(wait_until, condition, what)
