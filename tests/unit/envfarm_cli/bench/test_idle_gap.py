"""The idle gap of the gateway's bench: the engine's clock, less what the tools took."""

import asyncio
import json

import httpx
import pytest
from envfarm.v1 import group_pb2, trajectory_pb2

from envfarm_cli.bench.idle_gap import gaps, p99_ms
from envfarm_cli.bench.instant_engine import Door, Turns

Kind = trajectory_pb2.TurnKind


def rollout(name: str, *tool_seconds: list[float]) -> group_pb2.Rollout:
    turns = [trajectory_pb2.Turn(kind=Kind.TURN_KIND_USER)]
    for seconds in tool_seconds:
        calls = [trajectory_pb2.ToolCallRecord(seconds=one) for one in seconds]
        turns.append(trajectory_pb2.Turn(kind=Kind.TURN_KIND_ASSISTANT, calls=calls))
        turns.append(trajectory_pb2.Turn(kind=Kind.TURN_KIND_TOOL))
    return group_pb2.Rollout(
        rollout_id=name, trajectory=trajectory_pb2.Trajectory(rollout_id=name, turns=turns)
    )


def test_a_gap_is_from_answer_to_request_less_the_tools():
    times = {"a.t0": (1.0, 1.5), "a.t1": (2.0, 2.0), "a.t2": (2.25, 2.5)}
    assert gaps([rollout("a", [0.125, 0.25], [0.0], [])], times) == [0.125, 0.25]


def test_turns_that_the_engine_did_not_see_have_no_gap():
    assert gaps([rollout("a", [0.1], [0.1], [])], {"a.t0": (0, 1), "a.t2": (3, 4)}) == []
    with pytest.raises(ValueError, match="no gap"):
        p99_ms([])


def test_ninety_nine_of_a_hundred_are_below():
    assert p99_ms([i / 1000 for i in range(101)]) == 99.0


async def test_the_instant_engine_remembers_when_it_was_asked():
    turns = Turns([[1, 2], [3]])
    server = await asyncio.get_running_loop().create_server(lambda: Door(turns), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, httpx.AsyncClient(base_url=url, trust_env=False) as client:
        for number in (0, 1):
            asked = {"request_id": f"r.t{number}", "token_ids": [4]}
            answer = await client.post("/inference/v1/generate", content=json.dumps(asked))
            assert answer.json()["choices"][0]["token_ids"] == ([1, 2], [3])[number]
        times = (await client.get("/times")).json()
    assert list(times) == ["r.t0", "r.t1"]
    assert times["r.t0"][0] <= times["r.t0"][1] <= times["r.t1"][0] <= times["r.t1"][1]
