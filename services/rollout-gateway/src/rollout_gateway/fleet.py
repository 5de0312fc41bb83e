"""Which engines and env-servers the gateway uses: from the settings at first, then as it is told."""

from collections.abc import Callable, Sequence

from envfarm.errors import InvalidArgument
from pydantic import TypeAdapter, ValidationError

from rollout_gateway.discovery import Discovery
from rollout_gateway.engine import Engine
from rollout_gateway.environment import Environment
from rollout_gateway.policy import Policy
from rollout_gateway.settings import EnvServerPlace, HttpUrl

_ENGINES = TypeAdapter(list[HttpUrl])
_SERVERS = TypeAdapter(list[EnvServerPlace])


class Fleet:
    """Joins and leaves change no result: an attempt that loses its place is run again."""

    def __init__(
        self,
        policy: Policy,
        environment: Environment,
        discovery: Discovery,
        make: Callable[[str], Engine],
    ):
        self._policy, self._environment, self._make = policy, environment, make
        self._discovery = discovery

    def describe(self) -> dict[str, list[dict[str, str | int]]]:
        return {
            "engines": [
                {"url": place.engine.url, "state": str(place.state), "running": place.running}
                for place in self._policy.places
            ],
            "env_servers": [{"address": address} for address in self._environment.addresses],
        }

    async def use_engines(self, urls: Sequence[str]) -> None:
        """Exactly these; InvalidArgument when one is no URL or there is none."""
        found = _checked(_ENGINES, [url.rstrip("/") for url in urls], "engines")
        await self._policy.use(found, self._make)

    async def use_env_servers(self, addresses: Sequence[str]) -> None:
        """Exactly these; InvalidArgument when one is no [dns:]host:port or there is none."""
        await self._discovery.use(_checked(_SERVERS, list(addresses), "env-servers"))


def _checked(adapter: TypeAdapter[list[str]], values: list[str], what: str) -> list[str]:
    if not values:
        raise InvalidArgument(f"a list of {what} needs at least one")
    try:
        return adapter.validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidArgument(f"{what}: {first['input']!r}: {first['msg']}") from error
