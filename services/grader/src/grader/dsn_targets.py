"""Which databases the grader may read by DSN: a caller must not be able to point it anywhere else.

Of a DSN only host, port, database and user count; they must be those of a target that the operator
named, and the password comes from the operator, too. The name is resolved once per grading and the
address pinned, so that nothing can be moved between the check and the connection.

    targets:
      - host: db.example.internal
        port: 5432
        databases: [shop_*]
        user: grader_ro
        password_file: /run/secrets/shop
        networks: [10.0.0.0/8]
"""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

import psycopg
from envfarm.errors import ConfigError, GraderError, InvalidArgument
from envfarm_common import strict_yaml
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork

from grader.reading import SESSION

_ALLOWED_KEYS = {"host", "port", "dbname", "user"}
CONNECT_SECONDS = 5


class Target(BaseModel):
    """One Postgres that the grader may read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: Annotated[str, Field(pattern=r"^([A-Za-z0-9._:-]+|/[^,\s]*)$")]
    """A name, an address, or the folder of a Unix socket."""
    port: Annotated[int, Field(ge=1, le=65535)] = 5432
    databases: Annotated[list[str], Field(min_length=1)]
    """Patterns of database names, such as `shop_*`."""
    user: Annotated[str, Field(min_length=1, max_length=63)]
    password_file: Path | None = None
    sslmode: Literal["disable", "prefer", "require", "verify-full"] = "prefer"
    networks: list[IPvAnyNetwork] = []
    """Where the name may resolve to. Empty allows any address but those of this machine and of
    link-local, multicast and unspecified networks; a target named by a loopback address is that."""


class TargetFile(BaseModel):
    """The file of GRADER_DSN_TARGETS_FILE."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    targets: list[Target]


@dataclass(frozen=True, slots=True)
class PinnedTarget:
    """Where one grading reads: its address will not change."""

    target: Target
    database: str
    address: str
    """Empty for a Unix socket."""
    password: str

    def conninfo(self) -> str:
        """For libpq; every parameter that could be taken from elsewhere is stated."""
        known: dict[str, str | int] = {
            "host": self.target.host,
            "port": self.target.port,
            "dbname": self.database,
            "user": self.target.user,
            "password": self.password,
            "sslmode": "disable" if not self.address else self.target.sslmode,
            "options": SESSION,
            "application_name": "envfarm-grader",
            "client_encoding": "UTF8",
            "connect_timeout": CONNECT_SECONDS,
            "gssencmode": "disable",
            "passfile": "/dev/null",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 30_000,
        }
        return make_conninfo("", **known, **({"hostaddr": self.address} if self.address else {}))


class DsnTargets:
    def __init__(self, targets: Sequence[Target]):
        self._targets = tuple(targets)

    @property
    def is_empty(self) -> bool:
        return not self._targets

    async def pin(self, dsn: str) -> PinnedTarget:
        """The allowed target that a DSN names; InvalidArgument for any other, and GraderError when
        its name does not resolve now."""
        host, port, database, user = _parsed(dsn)
        for target in self._targets:
            names = any(fnmatchcase(database, pattern) for pattern in target.databases)
            if names and (target.host, target.port, target.user) == (host, port, user):
                return PinnedTarget(
                    target, database, await _resolved(target), _password(target.password_file)
                )
        raise InvalidArgument(
            "dsn: it names no database that this grader may read",
            hint="the operator allows one with GRADER_DSN_TARGETS_FILE",
        )


def load_targets(file: Path | None) -> DsnTargets:
    """Targets of the file, none without one; ConfigError names file and line of a mistake."""
    return DsnTargets(strict_yaml.load(file, TargetFile).targets if file else ())


def _parsed(dsn: str) -> tuple[str, int, str, str]:
    try:
        # Parsing reads neither the environment nor a service file.
        found = {key: str(value) for key, value in conninfo_to_dict(dsn).items() if value}
    except (psycopg.ProgrammingError, UnicodeError) as error:
        raise InvalidArgument("dsn: it is no connection string of Postgres") from error
    surplus = sorted(set(found) - _ALLOWED_KEYS)
    missing = sorted({"host", "dbname", "user"} - set(found))
    if surplus or missing:
        raise InvalidArgument(
            f"dsn: {', '.join(surplus or missing)} {'is not allowed' if surplus else 'is missing'}",
            hint="give host, port, dbname and user only; the grader has the password",
        )
    port = found.get("port", "5432")
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise InvalidArgument("dsn: the port is no port")
    return found["host"], int(port), found["dbname"], found["user"]


async def _resolved(target: Target) -> str:
    if target.host.startswith("/"):
        return ""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise GraderError(f"dsn: {target.host} does not resolve: {error}") from error
    for *_, place in found:
        address = ipaddress.ip_address(place[0])
        if _may_be(address, target):
            return str(address)
    raise InvalidArgument(f"dsn: {target.host} resolves to an address that is not allowed")


def _may_be(address: ipaddress.IPv4Address | ipaddress.IPv6Address, target: Target) -> bool:
    if target.networks:
        return any(address in network for network in target.networks)
    if target.host == "localhost" or target.host == str(address):
        return not (address.is_link_local or address.is_multicast or address.is_unspecified)
    return not (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
    )


def _password(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"the password file {file} cannot be read: {error.strerror}") from error
