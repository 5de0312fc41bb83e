"""Env-servers that come and go: `dns:host:port` stands for every address that the name has now, and
`redis` for every env-server that has registered itself there.

A compose service that is scaled and a headless Kubernetes service are such names. What cannot be
looked up for a moment keeps the addresses that it had.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from envfarm_common import logging

from rollout_gateway.environment import Environment

log = logging.get(__name__)

REFRESH_SECONDS = 2.0
SCHEME = "dns:"
REGISTRY = "redis"

LookUp = Callable[[str, int], Awaitable[list[str]]]


class Discovery:
    """Keeps `environment` at what `places` mean. `refresh` once before serving, then `run`."""

    def __init__(
        self,
        environment: Environment,
        places: Sequence[str],
        look_up: LookUp | None = None,
        registered: Callable[[], Awaitable[list[str]]] | None = None,
    ):
        """`registered` gives the addresses that place `redis` means."""
        self._environment = environment
        self._registered = registered
        self._look_up = look_up or addresses_of
        self._places = list(places)
        self._known: dict[str, list[str]] = {}

    async def use(self, places: Sequence[str]) -> None:
        """Exactly these from now on, names among them."""
        self._places = list(places)
        await self.refresh()

    async def refresh(self) -> None:
        found: list[str] = []
        for place in self._places:
            is_moving = place == REGISTRY or place.startswith(SCHEME)
            found += await self._resolve(place) if is_moving else [place]
        addresses = list(dict.fromkeys(found))
        if addresses != self._environment.addresses:
            log.info("env-servers", addresses=addresses)
            self._environment.use(addresses)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            await self.refresh()

    async def _resolve(self, place: str) -> list[str]:
        try:
            self._known[place] = sorted(await self._found(place))
        except OSError as error:
            log.warning("env-servers not looked up", place=place, error=str(error))
        return self._known.get(place, [])

    async def _found(self, place: str) -> list[str]:
        if place == REGISTRY:
            return await self._registered() if self._registered else []
        host, _, port = place.removeprefix(SCHEME).rpartition(":")
        return await self._look_up(host, int(port))


async def addresses_of(host: str, port: int) -> list[str]:
    """host:port of each address of a name; OSError when it has none."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    hosts = {str(item[4][0]) for item in found}
    return [f"[{item}]:{port}" if ":" in item else f"{item}:{port}" for item in hosts]
