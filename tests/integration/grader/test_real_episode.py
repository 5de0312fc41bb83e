"""Real grader, real env-server, real Postgres: verdicts of whole episodes, and a kill in between."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pydantic import SecretStr

from grader.checkset import load_checkset
from grader.ingest import prove_tasks
from grader.settings import IngestSettings
from tests.support.env_server import EnvClient, EnvServer, running_env_server
from tests.support.grader_process import GraderProcess, environment, grader_process

_TCP, _TCP6 = Path("/proc/net/tcp"), Path("/proc/net/tcp6")
DOMAINS = Path(__file__).parents[3] / "domains"
TASKS = ("orders/refund-two-orders", "orders/cancel-packed", "orders/refund-approval")


@pytest.fixture(scope="module")
def server() -> Iterator[EnvServer]:
    with running_env_server(DOMAINS) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def golden_dir(server: EnvServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = IngestSettings(
        domains_dir=DOMAINS,
        golden_dir=tmp_path_factory.mktemp("golden"),
        evidence_token=SecretStr(server.grader_token),
        infra_token=SecretStr(server.infra_token),
        env_server=server.grpc,
    )
    report = await prove_tasks(load_checkset(DOMAINS), config, TASKS, lambda line: None)
    assert report.failures == []
    return config.golden_dir


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grader(
    server: EnvServer, golden_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GraderProcess]:
    root = tmp_path_factory.mktemp("grader")
    env = environment(DOMAINS, golden_dir, server.grader_token, root / "ready.json")
    async with grader_process(env, root / "grader.log") as process:
        yield process


def body(episode: Any, reply: str) -> dict[str, Any]:
    return {
        "request_id": f"r-{episode.episode_id}",
        "task_id": episode.task.ref.task_id,
        "task_hash": episode.task.ref.task_hash,
        "episode": {"env_server": episode.env_server, "episode_id": episode.episode_id},
        "final_reply": reply,
    }


async def refund_both(client: EnvClient, first: str, second: str) -> Any:
    refunds = {
        "O-1018": {"amount": 28.40, "reason": "damaged"},
        "O-1019": {"amount": 22.40, "reason": "wrong_item"},
    }
    episode = await client.open("orders/refund-two-orders")
    for order_id in (first, second):
        result = await client.call(episode, "issue_refund", order_id=order_id, **refunds[order_id])
        assert not result.is_error
    await client.seal(episode)
    return episode


@pytest.mark.parametrize("order", [("O-1018", "O-1019"), ("O-1019", "O-1018")])
async def test_either_order_of_two_refunds_is_right(
    server: EnvServer, grader: GraderProcess, order: tuple[str, str]
):
    async with server.client() as client:
        episode = await refund_both(client, *order)
        verdict = (await grader.grade(body(episode, "Refunded O-1018 and O-1019."))).json()
        await client.close(episode)
    assert verdict["reward"] == 1.0, verdict
    assert {change["table"] for change in verdict["diff"]} == {"refunds", "order_events"}


async def test_the_agents_own_words_in_a_ticket_do_not_matter(
    server: EnvServer, grader: GraderProcess
):
    async with server.client() as client:
        episode = await client.open("orders/cancel-packed")
        await client.call(
            episode,
            "open_ticket",
            customer_id="C-112",
            order_id="O-1025",
            topic="packed_cancellation",
            note="Please stop this parcel if you still can.",
        )
        await client.seal(episode)
        verdict = (await grader.grade(body(episode, "I opened a ticket for O-1025."))).json()
        await client.close(episode)
    assert verdict["reward"] == 1.0, verdict


async def test_a_refund_without_the_approval_is_wrong_though_the_tool_allows_it(
    server: EnvServer, grader: GraderProcess
):
    async with server.client() as client:
        episode = await client.open("orders/refund-approval")
        refund = {"order_id": "O-1014", "amount": 129, "reason": "damaged"}
        result = await client.call(episode, "issue_refund", **refund)
        assert not result.is_error
        await client.seal(episode)
        verdict = (await grader.grade(body(episode, "Refunded 129 for O-1014."))).json()
        await client.close(episode)
    failed = [check["name"] for check in verdict["checks"] if not check["passed"]]
    assert verdict["reward"] == 0.0
    assert failed == ["final state", "refund cites a granted approval"]


async def test_an_episode_that_is_not_sealed_has_no_verdict(
    server: EnvServer, grader: GraderProcess
):
    async with server.client() as client:
        episode = await client.open("orders/cancel-packed")
        response = await grader.grade(body(episode, ""))
        await client.close(episode)
        closed = await grader.grade(body(episode, ""))
    assert (response.status_code, response.json()["code"]) == (409, "ERROR_CODE_WRONG_STATE")
    assert closed.status_code in (404, 409)
    assert "reward" not in response.json() and "reward" not in closed.json()


async def test_an_env_server_killed_during_a_grading_gives_an_error_and_no_verdict(
    golden_dir: Path, tmp_path: Path
):
    with running_env_server(DOMAINS) as victim:
        ready = tmp_path / "ready.json"
        env = environment(DOMAINS, golden_dir, victim.grader_token, ready)
        async with (
            grader_process(env, tmp_path / "grader.log") as grader,
            victim.client() as client,
        ):
            warm = await refund_both(client, "O-1018", "O-1019")
            assert (await grader.grade(body(warm, "O-1018, O-1019"))).json()["reward"] == 1.0
            episode = await refund_both(client, "O-1018", "O-1019")
            os.kill(victim.process.pid, signal.SIGSTOP)
            try:
                pending = asyncio.ensure_future(grader.grade(body(episode, "O-1018, O-1019")))
                await _until_unread_bytes(int(victim.grpc.rpartition(":")[2]))
                assert not pending.done()
            finally:
                os.kill(victim.process.pid, signal.SIGKILL)
            response = await pending
            again = await grader.grade(body(episode, "O-1018, O-1019"))
    for answer in (response, again):
        assert (answer.status_code, answer.json()["code"]) == (502, "ERROR_CODE_GRADER")
        assert answer.json()["retryable"] is True
        assert "reward" not in answer.json()


async def _until_unread_bytes(port: int) -> None:
    """Until a connection to `port` holds bytes that its stopped owner has not read."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        # gRPC listens on dual-stack sockets, so its IPv4 connections are listed under tcp6.
        lines = [*_TCP.read_text().splitlines()[1:], *_TCP6.read_text().splitlines()[1:]]
        for fields in map(str.split, lines):
            local_port = int(fields[1].rpartition(":")[2], 16)
            unread = int(fields[4].rpartition(":")[2], 16)
            if local_port == port and fields[3] == "01" and unread:
                return
        await asyncio.sleep(0.02)
    raise AssertionError("the grader never asked the env-server")
