"""Each fault at each boundary, in one job: what becomes of the attempt, of its retry, of its group.

Group n meets fault n of the table, in the first attempt of its first slot. Slot 0 is right and slot 1
is not, so a group that was not bent by its fault has the rewards 1 and 0.
"""

import asyncio
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from envfarm.errors import BrokenWorld, InvalidArgument, NoCapacity, NoChecks
from envfarm.v1 import grader_service_pb2, verdict_pb2

from rollout_gateway.user_model import END
from tests.integration.gateway.conftest import Farm, golden_turns
from tests.support.chat_server import chat_server, spoken
from tests.support.env_server import EnvServer
from tests.support.faulty_door import FaultyDoor, faulty_door
from tests.support.grader_process import GraderProcess

TASK = "orders/refund-damaged"
PUBLISHED, NOT_RUNNABLE = "published", "not_runnable"
WHOLE = [1.0, 0.0]
pytestmark = [pytest.mark.prove, pytest.mark.timeout(600)]


def refused(error: type[Exception]) -> Callable[[], bytes]:
    def answer() -> bytes:
        raise error("planned")

    return answer


def judged(**fields: Any) -> Callable[[], bytes]:
    """A verdict that no grader gives."""
    verdict = verdict_pb2.Verdict(**fields)
    return grader_service_pb2.GradeResponse(verdict=verdict).SerializeToString


@dataclass(frozen=True)
class Fault:
    boundary: str
    """engine, env, grader or user."""
    step: str
    """Turn of the engine, method of a door, or what the users' model is asked."""
    kind: Any
    status: str = ""
    """Of the attempt that met it; empty: the attempt goes on and has its reward."""
    end: str = PUBLISHED

    def __str__(self) -> str:
        return f"{self.boundary} {self.step} {getattr(self.kind, '__qualname__', self.kind)}"


GRADED = verdict_pb2.VERDICT_STATUS_GRADED
UNGRADABLE = verdict_pb2.VERDICT_STATUS_UNGRADABLE
TABLE = [
    # The engine: whatever it answers wrongly, the attempt has no reward and runs again alone.
    Fault("engine", "t0", "http_500", "failed_engine"),
    Fault("engine", "t1", "hang", "failed_engine"),
    Fault("engine", "t0", "disconnect", "failed_engine"),
    Fault("engine", "t1", "not_json", "failed_engine"),
    Fault("engine", "t0", "aborted", "failed_engine"),
    Fault("engine", "t1", "too_many", "failed_engine"),
    Fault("engine", "t0", "short_logprobs", "failed_engine"),
    Fault("engine", "t1", "other_ids", "failed_engine"),
    Fault("engine", "t0", "nan", "failed_engine"),
    Fault("engine", "t1", "no_versions", "failed_engine"),
    # An open is asked for until there is room; what no wait can change ends the group.
    Fault("env", "OpenEpisode", "unavailable"),
    Fault("env", "OpenEpisode", "lost"),
    Fault("env", "OpenEpisode", refused(NoCapacity)),
    Fault("env", "OpenEpisode", refused(BrokenWorld), "failed_env", NOT_RUNNABLE),
    # A tool call is sent once: one whose fate is unknown ends the attempt, and is ours.
    Fault("env", "CallTool", "unavailable", "failed_env"),
    Fault("env", "CallTool", "lost", "failed_env"),
    Fault("env", "CallTool", "hang", "failed_env"),
    # What is wrong with its arguments is the model's to read.
    Fault("env", "CallTool", refused(InvalidArgument)),
    Fault("env", "SealEpisode", "unavailable", "failed_env"),
    Fault("env", "SealEpisode", "lost", "failed_env"),
    # The lease ends an episode that was not closed.
    Fault("env", "CloseEpisode", "unavailable"),
    # Grading is asked for again under the same id; what is no verdict is never a zero.
    Fault("grader", "Grade", "unavailable"),
    Fault("grader", "Grade", "lost"),
    Fault("grader", "Grade", "hang", "failed_grader"),
    Fault("grader", "Grade", judged(status=UNGRADABLE), "failed_grader"),
    Fault("grader", "Grade", judged(status=GRADED), "failed_grader"),
    Fault("grader", "Grade", judged(status=GRADED, reward=math.nan), "failed_grader"),
    Fault("grader", "Grade", judged(status=GRADED, reward=0.0, request_id="x"), "failed_grader"),
    Fault("grader", "Grade", refused(NoChecks), "failed_grader", NOT_RUNNABLE),
    # The users' model.
    Fault("user", "answer", "refuses", "failed_user"),
    Fault("user", "answer", "says nothing", "failed_user"),
    Fault("user", "answer", "no choices", "failed_user"),
]


def script(rollout_id: str, turn: int, prompt: str) -> str:
    group, _, rest = rollout_id.rpartition(".s")
    fault, first = TABLE[int(group.rpartition(".")[2])], rest == "0.a1"
    if first and fault.boundary == "user" and turn == 0:
        return f"Are you there? {fault.kind}"
    golden = golden_turns(TASK)
    if rest.startswith("1") or turn >= len(golden):
        return "Good day."
    return golden[turn]


def users_model(body: dict[str, Any]) -> dict[str, Any] | int:
    said = body["messages"][-1]["content"]
    if said.endswith("refuses"):
        return 400
    if said.endswith("says nothing"):
        return spoken("")
    if said.endswith("no choices"):
        return {"choices": []}
    return spoken(END)


def planned(it: Farm, env: FaultyDoor, grader: FaultyDoor) -> None:
    for number, fault in enumerate(TABLE):
        name = f"job.0.{number}.s0.a1"
        if fault.boundary == "engine":
            it.engine.faults[f"{name}.{fault.step}"] = fault.kind
        elif fault.boundary != "user":
            (env if fault.boundary == "env" else grader).plan(fault.step, name, fault.kind)


async def test_every_fault_has_its_status_its_retry_and_its_group(
    farm: Callable[..., Farm],
    env_server: EnvServer,
    grader: GraderProcess,
):
    with chat_server(users_model) as users:
        async with (
            faulty_door(env_server.grpc) as env,
            faulty_door(grader.grpc, env_server.grpc) as judge,
        ):
            it = farm(
                script,
                env_servers=env.address,
                grader=judge.address,
                users="model",
                user_url=users.url,
                user_model="u",
                generate_seconds=8,
                call_seconds=8,
                grade_seconds=8,
                concurrency=16,
                lease_seconds=20,
            )
            planned(it, env, judge)
            await it.announce()
            await it.gateway.submit(
                "job", [TASK], group_size=2, groups_per_task=len(TABLE), keep_zero_variance=True
            )
            job = await it.gateway.done("job", seconds=240)
    ends = {
        group["group_id"]: group for group in (await it.gateway.get("/v1/jobs/job/groups")).json()
    }
    rows = {
        row["rollout_id"]: row for row in (await it.gateway.get("/v1/jobs/job/rollouts")).json()
    }
    assert found(ends, rows) == wanted()
    assert (env.unused, judge.unused, it.engine.faults) == ([], [], {})
    # No write was replayed: neither a call nor an open under a new id.
    calls = {name: count for name, count in env.served.items() if name.startswith("CallTool")}
    assert calls
    assert set(calls.values()) == {1}
    assert job.refilled_samples == sum(fault.status != "" for fault in TABLE)
    assert (
        job.groups_published
        == len(it.stream.groups())
        == sum(fault.end == PUBLISHED for fault in TABLE)
    )
    # What was not closed ends with its lease; nothing is left.
    async with env_server.client() as client, asyncio.timeout(60):
        while (await client.capacity()).live_episodes:
            await asyncio.sleep(0.1)
    # What has no reward is counted as such, once, and every sum is that of the records.
    metrics = (await it.gateway.get("/metrics")).text
    assert summed(metrics, "envfarm_rollouts_total") == len(rows) == job.attempts
    assert summed(metrics, "envfarm_groups_total") == len(ends) == len(TABLE)
    for status in {fault.status for fault in TABLE if fault.status}:
        count = sum(fault.status == status for fault in TABLE)
        assert f'envfarm_samples_refilled_total{{status="{status}"}} {count}.0' in metrics


def summed(metrics: str, name: str) -> float:
    """Over all labels."""
    return sum(float(value) for value in re.findall(rf"^{name}{{.*}} (\S+)$", metrics, re.M))


def wanted() -> dict[str, tuple[Any, ...]]:
    """(status, reward) of the attempt that met the fault, how its group ended, with what rewards."""
    return {
        f"{number}: {fault}": (
            fault.status or "completed",
            None if fault.status else 1.0,
            fault.end,
            WHOLE if fault.end == PUBLISHED else None,
            int(fault.status != ""),
        )
        for number, fault in enumerate(TABLE)
    }


def found(ends: dict[str, Any], rows: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    told = {}
    for number, fault in enumerate(TABLE):
        first, group = rows[f"job.0.{number}.s0.a1"], ends[f"job.0.{number}"]
        rewards = group["rewards"] if group["end"] == PUBLISHED else None
        told[f"{number}: {fault}"] = (
            first["status"],
            first["reward"],
            group["end"],
            rewards,
            group["refilled_samples"],
        )
    return told
