"""What a person sees of an attempt, and that text which is not ours cannot steer the terminal."""

import pytest
from envfarm.v1 import evidence_pb2, group_pb2, trajectory_pb2, verdict_pb2
from rich.console import Console

from envfarm_cli.episode_view import as_values, render

T = trajectory_pb2


@pytest.fixture
def rollout() -> group_pb2.Rollout:
    made = group_pb2.Rollout(rollout_id="j.0.0.s0.a1", episode_id="ep-1", seconds=1.25)
    trajectory = made.trajectory
    trajectory.task.task_id = "orders/refund-damaged"
    trajectory.status = T.ROLLOUT_STATUS_COMPLETED
    trajectory.token_ids.extend([1, 2, 3, 4])
    trajectory.loss_mask = b"\x00\x00\x01\x01"
    trajectory.version_spans.add(start=2, length=2, version_number=7)
    trajectory.turns.add(kind=T.TURN_KIND_SYSTEM, text="policy " * 100)
    trajectory.turns.add(kind=T.TURN_KIND_USER, text="broken\x1b[2J board")
    turn = trajectory.turns.add(kind=T.TURN_KIND_ASSISTANT, reasoning="look it up")
    turn.calls.add(name="get_order", arguments_json='{"order_id":"O-1"}', content='{"total":1}')
    turn.calls.add(name="nope", arguments_json="{", content="not valid", is_error=True)
    trajectory.turns.add(kind=T.TURN_KIND_ASSISTANT, text="Refunded 34.90 euros.")
    verdict = made.verdict
    verdict.status = verdict_pb2.VERDICT_STATUS_GRADED
    verdict.reward = 1.0
    verdict.checks.add(name="final state", kind="state", passed=True, expected="a", observed="a")
    verdict.diff.add(
        table="orders",
        key_json='{"order_id":"O-1"}',
        op=evidence_pb2.ROW_OP_UPDATE,
        before_json='{"order_id":"O-1","status":"placed"}',
        after_json='{"order_id":"O-1","status":"cancelled"}',
    )
    return made


def shown(rollout: group_pb2.Rollout, whole: bool = False) -> str:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))
    console.print(render(rollout, whole=whole))
    console.file.close()
    return console.export_text()


def test_conversation_diff_and_verdict_are_shown(rollout):
    text = shown(rollout)
    assert "orders/refund-damaged  completed, reward 1" in text
    assert "4 tokens, 2 of them sampled, under policy version 7" in text
    assert 'calls  get_order(order_id="O-1")' in text
    assert "refused  not valid" in text
    assert 'status: "placed" → "cancelled"' in text
    assert "Refunded 34.90 euros." in text
    assert "✓" in text and "final state" in text


def test_long_policy_is_shortened_unless_all_is_wanted(rollout):
    assert "400 more characters" in " ".join(shown(rollout).split())
    assert "more characters" not in " ".join(shown(rollout, whole=True).split())


def test_control_characters_are_replaced(rollout):
    assert "\x1b" not in shown(rollout)
    assert "broken�[2J board" in shown(rollout)


def test_an_attempt_without_a_verdict_has_no_reward(rollout):
    rollout.ClearField("verdict")
    text = shown(rollout)
    assert "no reward" in text
    assert "No verdict." in text


def test_values_have_no_tokens_but_their_number(rollout):
    value = as_values(rollout)
    assert value["status"] == "completed"
    assert (value["tokens"], value["sampled_tokens"]) == (4, 2)
    assert "token_ids" not in value["trajectory"]
    assert value["verdict"]["reward"] == 1.0
