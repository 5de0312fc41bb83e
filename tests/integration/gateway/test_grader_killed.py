"""The gateway's client against a real grader that is killed while it grades."""

import asyncio
from pathlib import Path

import grpc
import pytest
from envfarm.errors import WIRE, GraderError, from_rpc
from envfarm.v1 import grader_service_pb2 as wire
from envfarm.v1 import task_pb2
from envfarm.v1.grader_service_pb2_grpc import GraderServiceStub
from envfarm_common.grpc import connect

from rollout_gateway.grading import Grader
from tests.integration.grader.test_grade_door import QUERY, TOKEN, write_domains, write_golden
from tests.support.canned_env_server import CannedEnvServer, canned_env_server
from tests.support.grader_process import CLIENT_TOKEN, environment, grader_process
from tests.support.shop_world import TASK_HASH, after, evidence

PAID = after(
    notes=[
        {"id": 7, "account": 1, "text": "old"},
        {"id": 8, "account": 1, "text": "paid"},
    ]
)
TASK = task_pb2.TaskRef(task_id="shop/t", task_hash=TASK_HASH)


def variables(root: Path, name: str, **more: str) -> dict[str, str]:
    (root / name).mkdir()
    return environment(
        root / "domains",
        root / "golden",
        TOKEN,
        root / name / "ready.json",
        GRADER_STATE_DIR=str(root / "state"),
        **more,
    )


async def held(canned: CannedEnvServer) -> None:
    async with asyncio.timeout(20):
        while canned.reads == 0:
            await asyncio.sleep(0.01)


async def test_a_verdict_lost_with_its_grader_is_asked_for_until_there_is_one(tmp_path: Path):
    write_golden(tmp_path / "golden", write_domains(tmp_path))
    async with canned_env_server(TOKEN) as (canned, _):
        canned.rows[QUERY] = ['{"ok":true}']
        canned.episodes["ep-paid"] = evidence(PAID)
        canned.hold = asyncio.Event()
        async with grader_process(variables(tmp_path, "a"), tmp_path / "a.log") as first:
            port = first.grpc.rpartition(":")[2]
            grader = Grader(first.grpc, CLIENT_TOKEN, grade_seconds=60)
            channel, metadata = connect(first.grpc, CLIENT_TOKEN)
            once = GraderServiceStub(channel).Grade(request(canned), metadata=metadata)
            again = asyncio.create_task(
                grader.grade(
                    request_id="r-1",
                    task=TASK,
                    env_server=canned.address,
                    episode_id="ep-paid",
                    final_reply="It is paid.",
                )
            )
            await held(canned)
            first.process.kill()
            with pytest.raises(grpc.RpcError) as lost:
                await once
            await channel.close()
        error = from_rpc(lost.value, GraderError)
        assert type(error) is GraderError and WIRE[type(error)].retryable
        assert not list((tmp_path / "state").glob("verdicts/*/*"))
        canned.hold.set()
        env = variables(tmp_path, "b", GRADER_GRPC_PORT=port)
        async with grader_process(env, tmp_path / "b.log"):
            verdict = await asyncio.wait_for(again, 60)
            assert grader.is_doubtful
            await asyncio.wait_for(grader.wait_until_healthy(), 20)
        await grader.close()
    assert (verdict.reward, verdict.request_id) == (1.0, "r-1")
    assert len(list((tmp_path / "state").glob("verdicts/*/*"))) == 1


def request(canned: CannedEnvServer) -> wire.GradeRequest:
    return wire.GradeRequest(
        request_id="r-1",
        task=TASK,
        episode=wire.EpisodeReference(env_server=canned.address, episode_id="ep-paid"),
        final_reply="It is paid.",
    )
