"""Recorded trajectories render and read the same again; every kind of tampering is found."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from envfarm.record_frames import read_rollouts
from envfarm.v1 import group_pb2

from envfarm_cli.commands import run
from rollout_gateway.job_context import read_context
from rollout_gateway.parity import differences
from tests.integration.gateway.conftest import Farm, golden_turns
from tests.support.policy_server import CUT

TASK = "orders/refund-damaged"
FIND = {"email": "ada.lindqvist@example.com"}


def json_turns() -> list[list[str]]:
    thought = "<think>\nWho is it? <tool_call>{}</tool_call>\n</think>\n\n"
    return [
        golden_turns(TASK),
        ["<tool_call>{oops</tool_call>", '<tool_call>{"name": "fly"}</tool_call>', "Your email?"],
        [thought + "Your email, please?", "Thank you."],
        ["<think>I think on" + CUT],
    ]


def xml_turns() -> list[list[str]]:
    call = (
        f"<function=find_customer>\n<parameter=email>\n{FIND['email']}\n</parameter>\n</function>"
    )
    return [
        [f"One moment.\n<tool_call>\n{call}\n</tool_call>", "Good bye."],
        [f"<tool_call>{call}</tool_call>" * 2, "<tool_call>\n<function=fly>\n", "Good bye."],
        ["<think>\nHm.\n</think>\n\nYour email?", "Good bye."],
        ["Good bye."],
    ]


def playing(turns: list[list[str]]):
    def script(rollout_id: str, turn: int, prompt: str) -> str:
        mine = turns[int(rollout_id.rsplit(".s", 1)[1].split(".")[0])]
        return mine[turn] if turn < len(mine) else "Good bye."

    return script


@pytest.mark.parametrize(
    ("chat_format", "turns"), [("compact", json_turns()), ("qwen3_xml", xml_turns())]
)
async def test_what_was_recorded_is_what_would_be_rendered_and_read_today(
    farm: Callable[..., Farm],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    chat_format: str,
    turns: list[list[str]],
):
    it = farm(playing(turns), chat_format=chat_format)
    await it.announce()
    it.engine.faults["job.0.0.s0.a1.t1"] = "http_500"
    await it.gateway.submit("job", [TASK], group_size=4, publish=False)
    await it.gateway.done("job")
    assert run(["parity", "--runs", str(tmp_path / "state"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["jobs"], told["trajectories"], told["differences"]) == (1, 5, [])
    assert run(["attempts", "audit", "--runs", str(tmp_path / "state"), "--json"]) == 0
    audit = json.loads(capsys.readouterr().out)
    assert (audit["attempts"], audit["excused"]) == (5, 1)
    assert audit["excuses"][0]["boundary"] == "engine"
    if chat_format == "compact":
        _tampering_is_found(tmp_path / "state" / "jobs" / "job")
        metrics = (await it.gateway.get("/metrics")).text
        assert "envfarm_calls_in_reasoning_total 1.0" in metrics


def _tampering_is_found(folder: Path) -> None:
    rendering, tasks = read_context(folder)
    renderer = rendering.renderer()
    stored = {r.rollout_id: r for r in read_rollouts(folder / "records.bin")}
    golden = stored["job.0.0.s0.a2"]
    task = tasks[TASK]

    def told(change: Callable[[group_pb2.Rollout], object]) -> str:
        copy = group_pb2.Rollout.FromString(golden.SerializeToString())
        change(copy)
        return " ".join(found.what for found in differences(copy, task, renderer))

    first = next(t for t in golden.trajectory.turns if t.calls)
    at = next(n for n, t in enumerate(golden.trajectory.turns) if t.calls)
    assert told(lambda r: None) == ""
    assert "token 3 differs" in told(lambda r: r.trajectory.token_ids.__setitem__(3, 7))
    assert "calls" in told(lambda r: r.trajectory.turns[at].calls.pop())
    assert "calls" in told(lambda r: setattr(r.trajectory.turns[at].calls[0], "name", "x"))
    assert "text" in told(lambda r: setattr(r.trajectory.turns[at].calls[0], "content", "x"))
    assert "reasoning" in told(lambda r: setattr(r.trajectory.turns[at], "reasoning", "x"))
    assert "starts at" in told(lambda r: setattr(r.trajectory.turns[at], "token_start", 1))
    assert "marked" in told(
        lambda r: setattr(r.trajectory, "loss_mask", bytes(len(golden.trajectory.loss_mask)))
    )
    assert "rendered as" in told(lambda r: setattr(r.trajectory, "renderer_hash", "0" * 64))
    assert "belong to no turn" in told(lambda r: r.trajectory.token_ids.append(9))
    assert first.token_length > 3
