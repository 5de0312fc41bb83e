"""Real env-server, Postgres, grader, Valkey and gateway; only the engine is a stand-in."""

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import redis
import yaml
from envfarm.v1 import group_pb2, policy_pb2
from envfarm_common.binaries import RedisServer
from pydantic import SecretStr

from envfarm_cli.commands_parity import recorded_jobs
from grader.checkset import load_checkset
from grader.ingest import prove_tasks
from grader.settings import IngestSettings
from rollout_gateway.replay import replay
from tests.support.domains import orders_alone
from tests.support.env_server import EnvServer, running_env_server
from tests.support.gateway_process import GatewayProcess, probe, settings
from tests.support.grader_process import CLIENT_TOKEN, GraderProcess, environment, grader_process
from tests.support.policy_server import PolicyServer, Script, logprob, write_weights
from tests.support.tiny_tokenizer import write_tokenizer

DOMAINS = Path(__file__).parents[3] / "domains"
TASKS = ("orders/refund-damaged", "orders/cancel-placed")
PROBE = [5, 9, 13, 200, 7]
VERSION = policy_pb2.PolicyVersion(run_id="run", number=3, weights_hash="a" * 64)


def golden_turns(task_id: str) -> list[str]:
    """The golden actions as the model would write them, then the golden reply."""
    domain, slug = task_id.split("/")
    golden = yaml.safe_load((DOMAINS / domain / "private" / f"{slug}.yaml").read_text())["golden"]
    calls = [
        f'<tool_call>{{"name": "{a["tool"]}", "arguments": {_json(a["arguments"])}}}</tool_call>'
        for a in golden["actions"]
    ]
    return [*calls, golden["reply"]]


def _json(value: Any) -> str:
    return json.dumps(value)


@pytest.fixture(scope="session")
def tokenizer_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="package")
def domains(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all domains the one that is played."""
    return orders_alone(tmp_path_factory.mktemp("domains"))


@pytest.fixture(scope="package")
def env_server(domains: Path) -> Iterator[EnvServer]:
    with running_env_server(domains) as running:
        yield running


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def grader(
    domains: Path, env_server: EnvServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GraderProcess]:
    root = tmp_path_factory.mktemp("grader")
    config = IngestSettings(
        domains_dir=domains,
        golden_dir=root / "golden",
        evidence_token=SecretStr(env_server.grader_token),
        infra_token=SecretStr(env_server.infra_token),
        env_server=env_server.grpc,
    )
    report = await prove_tasks(load_checkset(domains), config, TASKS, lambda line: None)
    assert report.failures == []
    env = environment(domains, config.golden_dir, env_server.grader_token, root / "ready.json")
    async with grader_process(env, root / "grader.log") as process:
        yield process


@pytest.fixture(scope="package")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def stream(redis_server: RedisServer) -> Iterator["Stream"]:
    client = redis.Redis.from_url(redis_server.url)
    client.flushall()
    yield Stream(client)
    client.close()


@dataclass
class Stream:
    """What a learner would find."""

    client: "redis.Redis"

    def groups(self, run_id: str = "run") -> list[group_pb2.Group]:
        found = []
        for _, fields in self.client.xrange(f"envfarm:{run_id}:groups"):  # pyright: ignore
            found.append(group_pb2.Group.FromString(self.client.get(fields[b"store_key"])))  # pyright: ignore
        return found

    def ids(self, run_id: str = "run") -> list[str]:
        entries = self.client.xrange(f"envfarm:{run_id}:groups")
        return [fields[b"group_id"].decode() for _, fields in entries]  # pyright: ignore


@dataclass
class Farm:
    gateway: GatewayProcess
    engine: PolicyServer
    stream: Stream
    weights: Path
    version: policy_pb2.PolicyVersion = field(default_factory=lambda: VERSION)

    async def announce(self, **fields: Any) -> Any:
        return await self.gateway.announce(self.update(**fields))

    def update(
        self, number: int = 3, digest: str = "a" * 64, offset: float = 0.0, **more: Any
    ) -> policy_pb2.WeightUpdate:
        version = policy_pb2.PolicyVersion(run_id="run", number=number, weights_hash=digest)
        path = write_weights(self.weights / str(number), offset)
        logprobs = more.pop("logprobs", [logprob(i, offset) for i in PROBE[1:]])
        return probe(version, path, PROBE, logprobs, **more)


@pytest.fixture
def farm(
    domains: Path,
    env_server: EnvServer,
    grader: GraderProcess,
    redis_server: RedisServer,
    stream: Stream,
    tokenizer_dir: Path,
    tmp_path: Path,
) -> Iterator[Callable[..., Farm]]:
    """`farm(script, **settings)` starts a gateway and its engine; both stop with the test.

    Whatever was recorded, trouble and all, must then replay offline to the same groups.
    """
    started: list[tuple[GatewayProcess, PolicyServer]] = []

    def start(script: Script, **values: Any) -> Farm:
        engine = PolicyServer(tokenizer_dir, script).__enter__()
        env = settings(
            tmp_path / "state",
            **{
                "env_token": env_server.infra_token,
                "grader_token": CLIENT_TOKEN,
                "env_servers": env_server.grpc,
                "grader": grader.grpc,
                "engines": engine.url,
                "redis_url": redis_server.url,
                "domains_dir": domains,
                "tokenizer_dir": tokenizer_dir,
                **values,
            },
        )
        gateway = GatewayProcess(env, tmp_path / "gateway.log")
        started.append((gateway, engine))
        return Farm(gateway.start(), engine, stream, tmp_path / "weights")

    yield start
    for gateway, engine in started:
        gateway.stop()
        engine.__exit__()
    for folder in recorded_jobs(tmp_path):
        assert replay(folder).deviations == []


def mixed(task_id: str, right: Callable[[int], bool]) -> Script:
    """Slots for which `right` holds play the golden turns; the others greet and do nothing."""
    turns = golden_turns(task_id)

    def script(rollout_id: str, turn: int, prompt: str) -> str:
        slot = int(rollout_id.rsplit(".s", 1)[1].split(".")[0])
        if not right(slot):
            return "Good day."
        return turns[turn] if turn < len(turns) else "Good bye."

    return script


def wait_until(check: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)
