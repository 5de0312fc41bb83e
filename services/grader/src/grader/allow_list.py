"""Which env-servers the grader may talk to: a caller must not be able to point it anywhere else."""

import re
import socket
import time
from collections.abc import Callable, Iterable

from envfarm.errors import InvalidArgument

_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\]):(?P<port>[0-9]{1,5})")
REMEMBERED_SECONDS = 300.0
"""How long an address of a `dns:` entry stays allowed: a replica that stops is read to its end."""
LOOKUP_SECONDS = 1.0
"""Least time between two look-ups of one name."""


class AllowList:
    """Entries are `host` (any port), `host:port`, `*.domain` or `*.domain:port`; with `dns:` before a
    host its addresses are meant, such as those of all replicas of a service."""

    def __init__(
        self,
        entries: Iterable[str],
        *,
        look_up: Callable[[str], set[str]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._entries: list[tuple[str, str]] = []
        self._names: list[tuple[_Addresses, str]] = []
        for entry in entries:
            host, port = _split(entry.lower().removeprefix("dns:"))
            if entry.lower().startswith("dns:"):
                self._names.append((_Addresses(host, look_up or addresses_of, clock), port))
            else:
                self._entries.append((host, port))

    def target(self, address: str) -> str:
        """The gRPC target of an allowed address; InvalidArgument for any other.

        The `dns:` scheme is fixed here, so that an address can never choose another one.
        """
        match = _ADDRESS.fullmatch(address)
        if match is None or not 0 < int(match["port"]) < 65536:
            raise InvalidArgument(f"episode.env_server: {address!r} is not host:port")
        host, port = match["host"].lower(), match["port"]
        if not self._is_allowed(host, port):
            raise InvalidArgument(
                f"episode.env_server: {address} is not an env-server that this grader may read",
                hint="the operator allows it with GRADER_ENV_SERVERS",
            )
        return f"dns:///{host}:{port}"

    def _is_allowed(self, host: str, port: str) -> bool:
        if any(_allows(entry, host, port) for entry in self._entries):
            return True
        bare = host.strip("[]")
        return any(
            allowed_port in ("", port) and bare in addresses
            for addresses, allowed_port in self._names
        )


class _Addresses:
    """The addresses of one name, looked up when an unknown one is asked for."""

    def __init__(self, name: str, look_up: Callable[[str], set[str]], clock: Callable[[], float]):
        self._name, self._look_up, self._clock = name, look_up, clock
        self._seen: dict[str, float] = {}
        self._looked_up = float("-inf")

    def __contains__(self, address: str) -> bool:
        now = self._clock()
        is_stale = now - self._seen.get(address, float("-inf")) > REMEMBERED_SECONDS / 2
        if is_stale and now - self._looked_up >= LOOKUP_SECONDS:
            self._looked_up = now
            self._seen |= dict.fromkeys(self._look_up(self._name), now)
        return now - self._seen.get(address, float("-inf")) <= REMEMBERED_SECONDS


def addresses_of(name: str) -> set[str]:
    """What the system resolves `name` to now; nothing when it does not."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {str(item[4][0]) for item in found}


def _split(entry: str) -> tuple[str, str]:
    if entry.endswith("]") or ":" not in entry:
        return entry, ""
    host, _, port = entry.rpartition(":")
    return host, port


def _allows(entry: tuple[str, str], host: str, port: str) -> bool:
    allowed_host, allowed_port = entry
    if allowed_port and int(allowed_port) != int(port):
        return False
    if allowed_host.startswith("*."):
        return host.endswith(allowed_host[1:]) and len(host) > len(allowed_host) - 1
    return host == allowed_host
