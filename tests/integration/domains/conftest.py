"""Each module's own domain on a real env-server: DOMAIN is its name, OPENED the task of `episode`."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.domains import domain_alone
from tests.support.env_server import EnvClient, EnvServer, running_env_server


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EnvServer]:
    domains = domain_alone(tmp_path_factory.mktemp("domains"), request.module.DOMAIN)
    with running_env_server(domains) as running:
        yield running


@pytest_asyncio.fixture
async def client(server: EnvServer) -> AsyncIterator[EnvClient]:
    async with server.client() as client:
        yield client


@pytest_asyncio.fixture
async def episode(request: pytest.FixtureRequest, client: EnvClient) -> AsyncIterator[Any]:
    episode = await client.open(f"{request.module.DOMAIN}/{request.module.OPENED}")
    yield episode
    await client.close(episode)
