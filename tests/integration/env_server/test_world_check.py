"""`world_check.check` on real Postgres: a sound world, and worlds that break one promise each."""

import shutil
from pathlib import Path

import pytest

from env_server import world_check
from env_server.backend import EmbeddedBackend
from env_server.world import load_world
from tests.support.env_server import SHELF

TOOLS = '''"""Tools of a shelf."""

import itertools

from env_server.toolkit import READ, WRITE, Call, tool

COUNTER = itertools.count()


@tool(READ)
async def list_books(call: Call) -> dict:
    """List the books."""
    await call.db.execute("SELECT book_id FROM books {order}")
    return {{"books": await call.db.fetchall()}}


@tool(WRITE)
async def rename_first(call: Call, title: str) -> dict:
    """Give the first book another title."""
    await call.db.execute(
        "UPDATE books SET title = %s WHERE book_id ="
        " (SELECT book_id FROM books {pick} LIMIT 1)", (title + {suffix},)
    )
    return {{"title": title}}
'''
SOUND = {"order": "ORDER BY book_id", "pick": "ORDER BY book_id", "suffix": "''"}
RUNS = {"shelf/run": [("rename_first", {"title": "Emma II"}), ("list_books", {})]}


async def outcomes(tmp_path: Path, **parts: str) -> dict[str, tuple[str, str]]:
    folder = tmp_path / "shelf/world"
    shutil.copytree(SHELF / "shelf/world", folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tools.py").write_text(TOOLS.format(**(SOUND | parts)))
    (folder / "schema.sql").write_text((folder / "schema.sql").read_text() + parts.get("sql", ""))
    backend = EmbeddedBackend(
        state_dir=tmp_path / "state",
        memory_dir=Path("/dev/shm"),
        max_connections=80,
        wheels=True,
        user="nobody",
    )
    found = await world_check.check(backend, load_world(folder), RUNS, tmp_path / "files")
    return {item.check: (item.outcome, item.told) for item in found}


async def test_a_sound_world_keeps_every_promise(tmp_path: Path):
    found = await outcomes(tmp_path)
    assert {name: outcome for name, (outcome, _) in found.items()} == {
        "schema": "ok",
        "rows": "ok",
        "clock": "ok",
        "reading": "ok",
        "determinism": "ok",
        "reuse": "note",
    }
    assert "3 copies: same answers, same end" in found["determinism"][1]


@pytest.mark.parametrize(
    ("parts", "broken", "said"),
    [
        ({"order": ""}, "reading", "list_books answers {} by the physical order"),
        ({"pick": ""}, "determinism", "different states"),
        pytest.param(
            {"suffix": "str(next(COUNTER))"},
            "determinism",
            "different states",
            marks=pytest.mark.prove,
        ),
        ({"sql": "CREATE TABLE loose (a int);"}, "schema", "loose: no primary key"),
        pytest.param(
            {"sql": "CREATE TABLE t (a int PRIMARY KEY, b float DEFAULT random());"},
            "clock",
            "schema.sql:19: 'random('",
            marks=pytest.mark.prove,
        ),
        pytest.param(
            {
                "sql": "CREATE TABLE t (a int PRIMARY KEY, b float8);"
                "INSERT INTO t SELECT 1, random();"
            },
            "rows",
            "differ in every build: t",
            marks=pytest.mark.prove,
        ),
    ],
)
async def test_a_broken_promise_is_named(
    tmp_path: Path, parts: dict[str, str], broken: str, said: str
):
    outcome, told = (await outcomes(tmp_path, **parts))[broken]
    assert outcome == "fails"
    assert said in told
