"""Which failures of Postgres pass by themselves, so that who asked may ask again."""

import psycopg
import pytest
from psycopg import errors

from env_server.cluster import passes


@pytest.mark.parametrize(
    "error",
    [
        errors.DiskFull("could not extend file"),
        errors.TooManyConnections("sorry"),
        errors.OutOfMemory("out of memory"),
        errors.AdminShutdown("terminating connection"),
        errors.CrashShutdown("terminating connection"),
        errors.CannotConnectNow("the database system is in recovery mode"),
        psycopg.OperationalError("server closed the connection unexpectedly"),
        psycopg.OperationalError("FATAL: too many connections for role"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_ran_out_or_went_away_comes_back(error: psycopg.Error):
    assert passes(error)


@pytest.mark.parametrize(
    "error",
    [
        errors.UndefinedTable("no such table"),
        errors.InsufficientPrivilege("not yours"),
        errors.QueryCanceled("statement timeout"),
        psycopg.InterfaceError("the connection is closed"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_wrong_stays_wrong(error: psycopg.Error):
    assert not passes(error)
