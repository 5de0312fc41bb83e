"""A start that cannot work: one clear line, exit status 1, nothing left running."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.env_server import SHELF, running_env_server, start_env_server
from tests.support.postgres_traces import folders, processes


@pytest.fixture
def domains(tmp_path: Path) -> Path:
    shutil.copytree(SHELF, tmp_path / "domains", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "domains"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder on disk that the account of Postgres can reach, with a short path."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def refusal(domains: Path, place: Path, **settings) -> str:
    """The last line that a failed start says; it must leave nothing below `place`."""
    settings = {"memory_dir": "", **settings}
    server = start_env_server(domains, place, wait=False, **settings)
    assert server.process.wait(60) == 1
    assert folders(place / "state") == []
    assert processes(place) == []
    assert not (place / "ready.json").exists()
    assert "Traceback" not in server.log()
    return server.log().strip().splitlines()[-1]


def test_missing_and_wrong_settings_are_named(place: Path, domains: Path):
    line = refusal(domains, place, infra_token=None, grader_token="short", ready_high=0)
    assert "ENV_SERVER_INFRA_TOKEN: Field required" in line
    assert "ENV_SERVER_GRADER_TOKEN: " in line and "ENV_SERVER_READY_HIGH: " in line


def test_one_token_for_two_doors_is_refused(place: Path, domains: Path):
    token = "x" * 20
    assert "must differ" in refusal(domains, place, infra_token=token, grader_token=token)


def test_backend_server_needs_a_dsn(place: Path, domains: Path):
    assert "ENV_SERVER_DSN" in refusal(domains, place, backend="server")


@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        ("nonsense", "error: ENV_SERVER_DSN is not a DSN"),
        ("host=127.0.0.1 port=1 user=x dbname=x", "error: cannot reach Postgres: "),
    ],
)
def test_a_dsn_that_leads_nowhere_is_one_line(place, domains, dsn: str, words: str):
    line = refusal(domains, place, backend="server", dsn=dsn)
    assert line.startswith(words)
    assert "\n" not in line


@pytest.mark.parametrize(
    ("file", "sql", "words"),
    [
        ("schema.sql", "CREATE TABLE x (a int);", "schema.sql: x: no primary key"),
        ("schema.sql", "CREATE TABLE x (a int PRIMARY KEY, b json);", "x.b: type json"),
        ("schema.sql", "CREATE SCHEMA y; CREATE TABLE y.x (a int);", "y.x: tables and views"),
        ("schema.sql", "CREATE TABEL x (a int);", 'schema.sql:20: syntax error at or near "TABEL"'),
        ("seed.sql", "INSERT INTO books VALUES (1);", "seed.sql: null value in column"),
    ],
)
def test_a_world_that_does_not_build_names_file_and_line(place, domains, file, sql, words):
    path = domains / "shelf/world" / file
    path.write_text(path.read_text() + "\n" + sql + "\n")
    line = refusal(domains, place)
    assert line.startswith("error: ") and words in line


def test_a_task_that_is_no_yaml_names_file_and_line(place: Path, domains: Path):
    (domains / "shelf/world/tasks/bad.yaml").write_text("id: shelf/bad\nopening: [\n")
    assert "bad.yaml:2: " in refusal(domains, place)


@pytest.mark.parametrize("setting", ["http_port", "grpc_port"])
def test_a_taken_port_is_named(place: Path, domains: Path, setting: str):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        line = refusal(domains, place, **{setting: port})
    assert line.startswith(f"error: cannot listen on 127.0.0.1:{port}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes the account of Postgres")
def test_a_folder_that_postgres_cannot_reach_is_named(place: Path, domains: Path):
    place.chmod(0o700)
    line = refusal(domains, place)
    assert "cannot reach" in line and "o+x" in line


def test_a_path_that_is_too_long_for_a_socket_is_named(place: Path, domains: Path):
    assert "too long" in refusal(domains, place, state_dir=place / ("x" * 60))


async def test_postgres_runs_from_disk_when_memory_is_not_wanted(place: Path, domains: Path):
    with running_env_server(domains, place, memory_dir="") as server:
        assert len(folders(place / "state")) == 1
        async with server.client() as client:
            assert (await client.capacity()).postgres_version
    assert folders(place / "state") == []
