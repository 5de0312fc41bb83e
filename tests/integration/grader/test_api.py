"""API v1 beyond a single grading: batch, regrade, verdicts, tokens, problems, gRPC, workers, kills."""

import asyncio
import contextlib
import hashlib
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import httpx
import pytest
import pytest_asyncio
import yaml
from envfarm.errors import GraderError, InvalidArgument, Unauthenticated, from_rpc
from envfarm.v1 import grader_service_pb2 as pb
from envfarm.v1 import task_pb2
from envfarm.v1.grader_service_pb2_grpc import GraderServiceStub
from envfarm_common.grpc import connect

from grader.verdict_wire import to_json
from tests.integration.grader.test_grade_door import (
    CHECKS,
    PAID,
    QUERY,
    TOKEN,
    body,
    write_domains,
    write_golden,
)
from tests.support.canned_env_server import CannedEnvServer, canned_env_server
from tests.support.grader_process import CLIENT_TOKEN, GraderProcess, environment, grader_process
from tests.support.shop_world import START, TASK_HASH, evidence

TEAM = "token-of-a-team-elsewhere"
READS_SHOP_ONLY = "token-that-reads-one-task"
GRANTS = [
    {"name": "team", "sha256": hashlib.sha256(TEAM.encode()).hexdigest(), "scopes": ["grade"]},
    {
        "name": "reader",
        "sha256": hashlib.sha256(READS_SHOP_ONLY.encode()).hexdigest(),
        "scopes": ["read"],
        "tasks": ["shop/u"],
    },
]


@contextlib.asynccontextmanager
async def running(root: Path, **more: str) -> AsyncIterator[GraderProcess]:
    """A grader in `root`, whose records outlive it."""
    domains = root / "domains"
    if not domains.exists():
        write_domains(root)
        write_golden(root / "golden", domains)
        (root / "tokens.yaml").write_text(yaml.safe_dump({"tokens": GRANTS}))
    env = environment(
        domains,
        root / "golden",
        TOKEN,
        root / "ready.json",
        GRADER_STATE_DIR=str(root / "state"),
        GRADER_TOKENS_FILE=str(root / "tokens.yaml"),
        GRADER_MAX_BODY_BYTES="100000",
        **more,
    )
    async with grader_process(env, root / "grader.log") as process:
        yield process


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grader(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GraderProcess]:
    async with running(tmp_path_factory.mktemp("grader")) as process:
        yield process


@pytest_asyncio.fixture
async def canned() -> AsyncIterator[CannedEnvServer]:
    async with canned_env_server(TOKEN) as (server, _):
        server.rows[QUERY] = ['{"ok":true}']
        server.episodes["ep-paid"] = evidence(PAID)
        server.episodes["ep-idle"] = evidence(START)
        yield server


async def test_a_batch_answers_each_request_as_if_it_were_alone(
    grader: GraderProcess, canned: CannedEnvServer
):
    requests = [
        body(canned, "ep-paid"),
        body(canned, "ep-idle"),
        body(canned, "ep-none"),
        body(canned, "ep-paid", request_id="x", task_hash="bad"),
        {"nonsense": 1},
    ]
    answer = await grader.post("/v1/grade/batch", {"requests": requests})
    results = answer.json()["results"]
    alone = [(await grader.grade(request)).json() for request in requests]
    assert answer.status_code == 200
    assert [r.get("verdict", r.get("problem")) for r in results] == alone
    assert [r["verdict"]["reward"] for r in results[:2]] == [1.0, 0.0]
    assert [r["problem"]["status"] for r in results[2:]] == [404, 422, 422]


@pytest.mark.parametrize("count", [0, 257])
async def test_a_batch_of_no_or_too_many_requests_is_refused(grader: GraderProcess, count: int):
    answer = await grader.post("/v1/grade/batch", {"requests": [{}] * count})
    assert answer.status_code == 422
    assert "1 to 256" in answer.json()["detail"]


async def test_a_verdict_can_be_read_again_byte_for_byte(
    grader: GraderProcess, canned: CannedEnvServer
):
    given = await grader.grade(body(canned, "ep-paid"))
    again = await grader.get(f"/v1/verdicts/{given.json()['verdict_id']}")
    assert again.content == given.content
    for unknown in ("v-" + "0" * 32, "v", "..%2F..%2Fclaims", "x" * 300):
        answer = await grader.get(f"/v1/verdicts/{unknown}")
        assert (answer.status_code, answer.headers["content-type"]) == (
            404,
            "application/problem+json",
        )


@pytest.mark.parametrize("episode_id", ["ep-paid", "ep-idle"])
@pytest.mark.parametrize("checks", ["original", "current"])
async def test_a_regrade_reproduces_the_verdict_byte_for_byte_and_asks_nobody(
    grader: GraderProcess, canned: CannedEnvServer, episode_id: str, checks: str
):
    given = await grader.grade(body(canned, episode_id))
    reads = canned.reads
    canned.episodes.clear()
    canned.rows.clear()
    sent = {"verdict_id": given.json()["verdict_id"], "checks": checks}
    answer = await grader.post("/v1/regrade", sent)
    assert answer.status_code == 200
    assert answer.content == given.content
    assert canned.reads == reads


async def test_other_checks_give_another_verdict_on_the_same_evidence(
    tmp_path: Path, canned: CannedEnvServer
):
    async with running(tmp_path) as grader:
        given = (await grader.grade(body(canned, "ep-paid"))).json()
    stricter = CHECKS.replace("contains_all: [paid]", "contains_all: [paid, in full]")
    (tmp_path / "domains/shop/private/t.yaml").write_text(stricter)
    write_golden(tmp_path / "golden", tmp_path / "domains")
    canned.episodes.clear()
    sent = {"verdict_id": given["verdict_id"]}
    async with running(tmp_path) as grader:
        current = (await grader.post("/v1/regrade", {**sent, "checks": "current"})).json()
        original = (await grader.post("/v1/regrade", {**sent, "checks": "original"})).json()
        named = {"verdict_id": current["verdict_id"], "checks": given["rules_hash"]}
        back = (await grader.post("/v1/regrade", named)).json()
    assert given["reward"] == 1.0 and current["reward"] == 0.0
    assert [c["name"] for c in current["checks"] if not c["passed"]] == ["words"]
    assert current["evidence_hash"] == given["evidence_hash"]
    assert current["checks_hash"] != given["checks_hash"]
    assert current["input"] == "GRADE_INPUT_STORED"
    assert original == given == back


async def test_evidence_that_is_not_kept_cannot_be_regraded_and_says_so(
    tmp_path: Path, canned: CannedEnvServer
):
    async with running(tmp_path, GRADER_KEEP_EVIDENCE="false") as grader:
        given = (await grader.grade(body(canned, "ep-paid"))).json()
        answer = await grader.post("/v1/regrade", {"verdict_id": given["verdict_id"]})
    assert (answer.status_code, answer.json()["code"]) == (404, "ERROR_CODE_UNKNOWN_VERDICT")
    assert "GRADER_KEEP_EVIDENCE" in answer.json()["hint"]


async def test_each_token_opens_its_scope_and_its_tasks(
    grader: GraderProcess, canned: CannedEnvServer
):
    given = await grader.grade(body(canned, "ep-paid"), token=TEAM)
    place = f"/v1/verdicts/{given.json()['verdict_id']}"
    assert given.status_code == 200
    assert (await grader.get(place, token=TEAM)).status_code == 403
    assert (await grader.get(place, token=READS_SHOP_ONLY)).json()["code"] == (
        "ERROR_CODE_WRONG_SCOPE"
    )
    assert (await grader.get(place, token="nobody-knows-this-one")).status_code == 401
    assert (await grader.get(place, token="")).status_code == 401
    regrade = {"verdict_id": given.json()["verdict_id"]}
    assert (await grader.post("/v1/regrade", regrade, token=TEAM)).status_code == 403


async def test_every_refusal_is_a_problem_document(grader: GraderProcess, canned: CannedEnvServer):
    big = body(canned, "ep-paid", final_reply="x" * 100_001)
    answers = [
        (await grader.get("/v1/nothing"), 404, "ERROR_CODE_INVALID_ARGUMENT"),
        (await grader.get("/v1/grade"), 405, "ERROR_CODE_INVALID_ARGUMENT"),
        (await grader.grade(big), 413, "ERROR_CODE_TOO_LARGE"),
        (await grader.post_bytes("/v1/grade", b"\xff{"), 422, "ERROR_CODE_INVALID_ARGUMENT"),
        (await grader.post_bytes("/v1/regrade", b"[]"), 422, "ERROR_CODE_INVALID_ARGUMENT"),
        (await grader.get("/v1/tasks/shop/none/schema"), 409, "ERROR_CODE_NO_CHECKS"),
    ]
    for answer, status, code in answers:
        assert answer.headers["content-type"] == "application/problem+json"
        assert (answer.status_code, answer.json()["status"]) == (status, status), answer.text
        assert answer.json()["code"] == code


async def test_no_or_two_inputs_are_refused(grader: GraderProcess, canned: CannedEnvServer):
    without = body(canned, "ep-paid")
    del without["episode"]
    for sent in (without, body(canned, "ep-paid", dsn="dbname=x"), body(canned, "e", state={})):
        answer = await grader.grade(sent)
        assert answer.status_code == 422
        assert "exactly one of episode, dsn and state" in answer.json()["detail"]


def rpc_request(canned: CannedEnvServer, episode_id: str, **more: object) -> pb.GradeRequest:
    asked = body(canned, episode_id) | more
    return pb.GradeRequest(
        request_id=asked["request_id"],
        task=task_pb2.TaskRef(task_id=asked["task_id"], task_hash=asked["task_hash"]),
        episode=pb.EpisodeReference(**asked["episode"]),
        final_reply=asked["final_reply"],
    )


async def test_the_grpc_door_gives_the_same_verdict_under_the_same_id(
    grader: GraderProcess, canned: CannedEnvServer
):
    channel, metadata = connect(grader.grpc, CLIENT_TOKEN)
    async with channel:
        stub = GraderServiceStub(channel)
        told = await stub.Grade(rpc_request(canned, "ep-paid"), metadata=metadata)
        over_http = (await grader.grade(body(canned, "ep-paid"))).json()
        kept = await stub.GetVerdict(
            pb.GetVerdictRequest(verdict_id=told.verdict.verdict_id), metadata=metadata
        )
        with pytest.raises(grpc.RpcError) as refused:
            await stub.Grade(rpc_request(canned, "ep-paid", task_hash="x"), metadata=metadata)
        with pytest.raises(grpc.RpcError) as unknown:
            await stub.Grade(rpc_request(canned, "ep-paid"))
    assert to_json(told.verdict) == to_json(kept.verdict) == over_http
    assert canned.reads == 1
    assert isinstance(from_rpc(refused.value, GraderError), InvalidArgument)
    assert isinstance(from_rpc(unknown.value, GraderError), Unauthenticated)


async def test_workers_share_answers_and_metrics_and_a_dead_one_comes_back(
    tmp_path: Path, canned: CannedEnvServer
):
    async with running(tmp_path, GRADER_WORKERS="3") as grader:
        asked = body(canned, "ep-paid")
        # Each request has a connection of its own, which the kernel deals to any worker.
        answers = await asyncio.gather(*(grader.grade(asked) for _ in range(24)))
        assert {answer.content for answer in answers} == {answers[0].content}
        assert canned.reads == 1
        other = await grader.grade({**asked, "final_reply": "Other."})
        assert other.status_code == 422
        metrics = (await grader.get("/metrics")).text
        assert 'envfarm_verdicts_total{domain="shop",reward="1",status="graded"} 1.0' in metrics
        processes = re.findall(r'process_cpu_seconds_total{worker="(\d)"}', metrics)
        assert processes == ["0", "1", "2"]
        workers = _children(grader.process.pid)
        os.kill(workers[0], signal.SIGKILL)
        await _until(lambda: len(set(_children(grader.process.pid)) - set(workers)) == 1)
        assert (await grader.grade(asked)).content == answers[0].content
        grader.process.terminate()
        assert await asyncio.to_thread(grader.process.wait, 20) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


async def test_a_grader_killed_in_mid_grade_gives_no_verdict_and_the_same_request_gets_one_later(
    tmp_path: Path, canned: CannedEnvServer
):
    canned.hold = asyncio.Event()
    async with running(tmp_path) as grader:
        pending = asyncio.ensure_future(grader.grade(body(canned, "ep-paid")))
        await _until(lambda: canned.reads == 1)
        grader.process.kill()
        with pytest.raises(httpx.TransportError):
            await pending
    assert not list((tmp_path / "state").glob("verdicts/*/*"))
    canned.hold.set()
    (tmp_path / "ready.json").unlink()
    async with running(tmp_path) as grader:
        answer = await grader.grade(body(canned, "ep-paid"))
    assert answer.json()["reward"] == 1.0


async def test_a_request_waits_for_the_worker_that_has_it_and_grades_when_that_one_dies(
    tmp_path: Path, canned: CannedEnvServer
):
    (tmp_path / "b").mkdir()
    canned.hold = asyncio.Event()
    shared = {"GRADER_STATE_DIR": str(tmp_path / "state")}
    async with running(tmp_path) as first:
        env_b = environment(
            tmp_path / "domains", tmp_path / "golden", TOKEN, tmp_path / "b/ready.json", **shared
        )
        async with grader_process(env_b, tmp_path / "b/log") as second:
            pending = asyncio.ensure_future(first.grade(body(canned, "ep-paid")))
            await _until(lambda: canned.reads == 1)
            waiting = asyncio.ensure_future(second.grade(body(canned, "ep-paid")))
            # The second one looks for the claim many times within this round trip.
            assert (await second.get("/healthz")).status_code == 200
            assert canned.reads == 1 and not waiting.done()
            first.process.kill()
            canned.hold.set()
            assert (await waiting).json()["reward"] == 1.0
            assert canned.reads == 2
            with pytest.raises(httpx.TransportError):
                await pending


async def test_tasks_without_a_known_world_have_no_schema(grader: GraderProcess):
    answer = await grader.get("/v1/tasks/shop/t/schema")
    assert (answer.status_code, answer.json()["code"]) == (409, "ERROR_CODE_NO_CHECKS")
    assert answer.json()["hint"] == "run ingest"


async def test_a_state_for_a_world_that_is_not_known_here_is_ungradable(grader: GraderProcess):
    sent = {
        "request_id": "s",
        "task_id": "shop/t",
        "task_hash": TASK_HASH,
        "state": {"accounts": [], "notes": []},
    }
    verdict = (await grader.grade(sent)).json()
    assert verdict["status"] == "VERDICT_STATUS_UNGRADABLE"
    assert "initial state is not known" in verdict["ungradable_reason"]
    assert "reward" not in verdict


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


async def _until(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
