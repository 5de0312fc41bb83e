"""Which env-servers the grader may talk to: a caller must not be able to point it anywhere else."""

import re
from collections.abc import Iterable

from envfarm.errors import InvalidArgument

_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\]):(?P<port>[0-9]{1,5})")


class AllowList:
    """Entries are `host` (any port), `host:port`, `*.domain` or `*.domain:port`."""

    def __init__(self, entries: Iterable[str]):
        self._entries = [_split(entry.lower()) for entry in entries]

    def target(self, address: str) -> str:
        """The gRPC target of an allowed address; InvalidArgument for any other.

        The `dns:` scheme is fixed here, so that an address can never choose another one.
        """
        match = _ADDRESS.fullmatch(address)
        if match is None or not 0 < int(match["port"]) < 65536:
            raise InvalidArgument(f"episode.env_server: {address!r} is not host:port")
        host, port = match["host"].lower(), match["port"]
        if not any(_allows(entry, host, port) for entry in self._entries):
            raise InvalidArgument(
                f"episode.env_server: {address} is not an env-server that this grader may read",
                hint="the operator allows it with GRADER_ENV_SERVERS",
            )
        return f"dns:///{host}:{port}"


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
