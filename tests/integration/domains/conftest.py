"""Each module's own domain on a real env-server: DOMAIN is its name, OPENED the task of `episode`."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from envfarm_cli.domain_files import linked_domains
from tests.support.env_server import EnvClient, EnvServer, running_env_server

DOMAINS = Path(__file__).parents[3] / "domains"


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EnvServer]:
    domains = linked_domains(tmp_path_factory.mktemp("domains"), DOMAINS, [request.module.DOMAIN])
    # The env-server's Postgres may run under another account.
    domains.chmod(0o755)
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
