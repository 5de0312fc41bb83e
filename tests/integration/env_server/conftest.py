"""One env-server per back end for the contract suite; each test opens episodes of its own."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest
from envfarm.errors import ConfigError
from envfarm_common.binaries import find_postgres

from tests.support.container_postgres import CONTAINER_IMAGE, docker_host
from tests.support.env_server import EnvClient, EnvServer, running_env_server
from tests.support.given_postgres import given_postgres

BACKENDS = ("embedded", "embedded-without-wheels", "server", "server-without-wheels")
if CONTAINER_IMAGE:
    BACKENDS = ("container",)


def require_system_postgres() -> None:
    try:
        find_postgres(wheels=False)
    except ConfigError as error:
        pytest.skip(f"wheels are hidden and the system has none: {error.message}")


@pytest.fixture(scope="session", params=BACKENDS)
def server(request: pytest.FixtureRequest) -> Iterator[EnvServer]:
    wheels = not request.param.endswith("without-wheels")
    if not wheels:
        require_system_postgres()
    with contextlib.ExitStack() as stack:
        settings = {"call_deadline_seconds": 1.0, "max_episodes": 32}
        if request.param.startswith("server"):
            dsn = stack.enter_context(given_postgres(wheels=wheels))
            settings |= {"backend": "server", "dsn": dsn}
        elif request.param == "container":
            settings |= {"backend": "container", "container_image": CONTAINER_IMAGE}
            settings |= {"docker_host": docker_host()}
        else:
            settings |= {"wheels": wheels}
        yield stack.enter_context(running_env_server(**settings))


@pytest.fixture
async def client(server: EnvServer) -> AsyncIterator[EnvClient]:
    """Whatever a test opened is closed after it."""
    async with server.client() as client:
        yield client
        for episode_id in client.opened:
            await client.close(episode_id)
