"""A DSN reaches an allowed target to the letter, or nothing."""

import socket
from pathlib import Path

import pytest
from envfarm.errors import ConfigError, GraderError, InvalidArgument
from psycopg.conninfo import conninfo_to_dict

from grader.dsn_targets import DsnTargets, Target, load_targets


def targets(**fields) -> DsnTargets:
    known = {"host": "db.example", "databases": ["shop_*"], "user": "grader_ro"}
    return DsnTargets([Target(**{**known, **fields})])


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    asked: list[str] = []

    def answer(host: str, port: int, *rest: object, **more: object):
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port)) for a in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return asked


async def test_the_name_is_resolved_once_and_the_address_pinned(monkeypatch: pytest.MonkeyPatch):
    asked = resolve_to(monkeypatch, "192.0.2.7")
    pinned = await targets(networks=["192.0.2.0/24"]).pin(
        "postgresql://grader_ro@db.example/shop_1"
    )
    parameters = conninfo_to_dict(pinned.conninfo())
    assert (parameters["hostaddr"], parameters["dbname"]) == ("192.0.2.7", "shop_1")
    assert (parameters["passfile"], parameters["gssencmode"]) == ("/dev/null", "disable")
    assert asked == ["db.example"]


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "::1", "fe80::1"]
)
async def test_a_name_that_points_into_this_machine_or_its_neighbours_is_refused(
    monkeypatch: pytest.MonkeyPatch, address: str
):
    resolve_to(monkeypatch, address)
    with pytest.raises(InvalidArgument, match="not allowed"):
        await targets().pin("host=db.example dbname=shop_1 user=grader_ro")


async def test_an_address_outside_the_targets_networks_is_refused(monkeypatch: pytest.MonkeyPatch):
    resolve_to(monkeypatch, "10.1.2.3")
    with pytest.raises(InvalidArgument, match="not allowed"):
        await targets(networks=["10.2.0.0/16"]).pin("host=db.example dbname=shop_1 user=grader_ro")


async def test_a_name_that_does_not_resolve_is_a_retryable_error(monkeypatch: pytest.MonkeyPatch):
    def fail(*rest: object, **more: object):
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(GraderError, match="does not resolve"):
        await targets().pin("host=db.example dbname=shop_1 user=grader_ro")


async def test_the_password_is_the_operators_and_read_for_each_grading(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    resolve_to(monkeypatch, "192.0.2.7")
    file = tmp_path / "password"
    file.write_text("first\n")
    allowed = targets(password_file=file, networks=["192.0.2.0/24"])
    dsn = "host=db.example dbname=shop_1 user=grader_ro"
    assert (await allowed.pin(dsn)).password == "first"
    file.write_text("second\n")
    assert (await allowed.pin(dsn)).password == "second"
    file.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        await allowed.pin(dsn)


async def test_without_a_file_no_database_may_be_read():
    with pytest.raises(InvalidArgument, match="no database that this grader may read"):
        await load_targets(None).pin("host=db.example dbname=shop_1 user=grader_ro")


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://grader_ro@%ff/shop_1",
        "postgresql://%ed%a0%80@db.example/shop_1",
        "host=\udc80",
    ],
)
async def test_a_name_that_is_not_utf_8_is_refused(dsn: str):
    with pytest.raises(InvalidArgument, match="no connection string"):
        await targets().pin(dsn)
