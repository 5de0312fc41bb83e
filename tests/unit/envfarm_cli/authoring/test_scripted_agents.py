"""What agents without a mind do in a task made by hand, and how a pool is judged by them."""

import json

import pytest
from envfarm.v1 import task_pb2

from envfarm_cli.authoring.baselines import Tried, shares
from envfarm_cli.authoring.scripted_agents import run_of, values_of
from grader.checkset import CheckFile

READ, WRITE = task_pb2.TOOL_ACCESS_READ, task_pb2.TOOL_ACCESS_WRITE


def spec(name: str, access: int, **properties: dict) -> task_pb2.ToolSpec:
    schema = {"properties": properties, "required": [n for n in properties if n != "approval_id"]}
    return task_pb2.ToolSpec(
        name=name,
        access=access,  # pyright: ignore[reportArgumentType]
        input_schema_json=json.dumps(schema),
    )


TEXT = {"type": "string"}
TASK = task_pb2.Task(
    ref=task_pb2.TaskRef(task_id="shop/refund"),
    opening="Refund O-1, please.",
    tools=[
        spec("get_order", READ, order_id=TEXT),
        spec("request_approval", WRITE, order_id=TEXT, amount={"type": "number"}),
        spec("issue_refund", WRITE, order_id=TEXT, amount={"type": "number"}, approval_id=TEXT),
        spec("open_ticket", WRITE, order_id=TEXT),
    ],
    limits=task_pb2.Limits(max_tool_calls=5),
    tags={"split": "train"},
)


def checks(*golden: dict, misses: tuple[dict, ...] = ()) -> CheckFile:
    return CheckFile.model_validate(
        {
            "task": "shop/refund",
            "golden": {"actions": list(golden), "reply": "O-1 is refunded."},
            "checks": [{"name": "end", "kind": "state"}],
            "extra_write": {"tool": "open_ticket", "arguments": {"order_id": "O-3"}},
            "near_misses": [{"name": "m", "actions": list(misses)}] if misses else [],
        }
    )


LOOK = {"tool": "get_order", "arguments": {"order_id": "O-1"}}
ASK = {"tool": "request_approval", "arguments": {"order_id": "O-1", "amount": 80.0}}
PAY = {
    "tool": "issue_refund",
    "arguments": {"order_id": "O-1", "amount": 80.0, "approval_id": "A-1"},
}
TICKET = {"tool": "open_ticket", "arguments": {"order_id": "O-1"}}


def tools(agent, file: CheckFile, seed: int = 0) -> list[str]:
    return [call.tool for call in run_of(agent, TASK, file, values_of([file]), seed).actions]


def test_the_oracle_plays_golden_and_lazy_only_reads_and_claims():
    file = checks(LOOK, ASK, PAY)
    assert tools("oracle", file) == ["get_order", "request_approval", "issue_refund"]
    assert run_of("oracle", TASK, file, {}, 0).reply == "O-1 is refunded."
    assert tools("lazy", file) == ["get_order"]
    claim = run_of("lazy", TASK, file, {}, 0).reply
    assert claim.startswith("It is all done") and "Refund O-1, please." in claim


def test_hasty_skips_the_approval_and_what_cites_it():
    (only,) = run_of("hasty", TASK, checks(LOOK, ASK, PAY), {}, 0).actions
    assert (only.tool, only.arguments) == ("issue_refund", {"order_id": "O-1", "amount": 80.0})


def test_hasty_takes_the_near_miss_where_handing_on_is_right():
    assert tools("hasty", checks(LOOK, TICKET, misses=(PAY,))) == ["issue_refund"]
    assert tools("hasty", checks(LOOK)) == []


def test_random_calls_are_valid_seeded_and_within_the_limit():
    file = checks(LOOK, ASK, PAY)
    run = run_of("random", TASK, file, values_of([file]), 7)
    assert run == run_of("random", TASK, file, values_of([file]), 7)
    assert run != run_of("random", TASK, file, values_of([file]), 8)
    assert len(run.actions) == 5
    schemas = {tool.name: json.loads(tool.input_schema_json) for tool in TASK.tools}
    for call in run.actions:
        assert set(schemas[call.tool]["required"]) <= set(call.arguments)
        assert call.arguments["order_id"] in ("O-1", "O-3")


def test_values_are_those_of_golden_near_misses_and_extra_writes():
    found = values_of([checks(LOOK, ASK, misses=(PAY,))])
    assert found == {"amount": [80.0], "approval_id": ["A-1"], "order_id": ["O-1", "O-3"]}


def tried(pool: str, number: int, fault: str = "", **passed: bool) -> Tried:
    agents = {"oracle": True, "lazy": False, "hasty": False, "random": False} | passed
    return Tried(f"shop/{pool}-{number}", pool, agents, fault)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("lazy", "is_ok"), [(2, True), (3, False)])
def test_a_limit_holds_in_each_pool_and_at_its_bound(lazy: int, is_ok: bool):
    pool = [tried("train", n, lazy=n < lazy) for n in range(10)] + [tried("eval", 0)]
    found = {(share.pool, share.agent): share for share in shares(pool)}
    assert found["train", "lazy"].ok is is_ok
    assert found["train", "lazy"].share == lazy / 10
    assert found["eval", "lazy"].ok


def test_the_oracle_must_succeed_in_all_and_faults_count_for_nobody():
    found = {share.agent: share for share in shares([tried("train", 0), tried("train", 1, "torn")])}
    assert (found["oracle"].passed, found["oracle"].tasks, found["oracle"].ok) == (1, 1, True)
    lost = shares([tried("train", 0, oracle=False), tried("train", 1)])
    assert [share.ok for share in lost if share.agent == "oracle"] == [False]
