"""An imported task from its first message to two verdicts: a real env-server with a mounted server, a
real grader with a scripted judge, a real gateway with a scripted chat endpoint."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from envfarm.v1 import gateway_service_pb2 as wire
from pydantic import SecretStr

from grader.checkset import load_checkset
from grader.ingest import prove_tasks
from grader.settings import IngestSettings
from tests.support.chat_server import chat_server, spoken, turns_so_far
from tests.support.env_server import EnvServer, running_env_server
from tests.support.grader_process import GraderProcess, environment, grader_process
from tests.support.judge_server import judge_server, quoted_text

TASK = "shelf/lend-one"
LAST = "The Atlas is yours. <DONE>"


@pytest.fixture(scope="module")
def domains() -> Path:
    return Path(__file__).parents[2] / "support/graded_dataset"


@pytest.fixture(scope="module")
def env_server(domains: Path) -> Iterator[EnvServer]:
    with running_env_server(domains, ready_low=1, ready_high=2) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
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
        evidence_timeout_seconds=90,
    )
    report = await prove_tasks(load_checkset(domains), config, [TASK], lambda line: None)
    assert report.failures == []

    def script(messages: list[dict[str, str]]) -> str:
        return json.dumps({"answer": "yes" if quoted_text(messages) == LAST else "no"})

    with judge_server(script) as judge:
        env = environment(
            domains,
            config.golden_dir,
            env_server.grader_token,
            root / "ready.json",
            GRADER_JUDGE_URL=judge.url,
            GRADER_JUDGE_MODEL="m",
        )
        async with grader_process(env, root / "grader.log") as process:
            yield process


def script(body: dict[str, Any]) -> dict[str, Any]:
    turns = [
        spoken("Which one?"),
        spoken("", ("lend", {"book": "B-1", "person": "Ada"})),
        spoken(LAST),
    ]
    return turns[turns_so_far(body)]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.timeout(300)
async def test_an_imported_task_is_played_and_graded_by_its_own_test(farm: Any, tmp_path: Path):
    with chat_server(script) as server:
        it = farm(lambda *_: "never", engines="", chat_url=server.url, chat_model="other")
        await it.gateway.submit(
            "talk", [TASK], publish=False, kind=wire.JOB_KIND_EVAL, group_size=1, interface="chat"
        )
        done = await it.gateway.done("talk", 240)
    assert done.state == wire.JOB_STATE_DONE
    (line,) = (tmp_path / "state/jobs/talk/attempts.jsonl").read_text().splitlines()
    row = json.loads(line)
    assert (row["reward"], row["status"], row["turns"]) == (1.0, "completed", 3), row
    (check,) = row["checks"]
    assert (check["kind"], check["passed"]) == ("dataset_test", True)
    assert check["upstream"] == {"result": True, "reward": 1.0}
    said = [m["content"] for m in server.asked[-1]["messages"] if m["role"] == "user"]
    assert said == ["May I have a book?", "The Atlas."]
