"""What a person sees of an attempt, and that text which is not ours cannot steer the terminal."""

import pytest
from rich.console import Console

from envfarm_cli.episode_view import render


@pytest.fixture
def attempt() -> dict:
    return {
        "rollout_id": "j.0.0.s0.a1",
        "episode_id": "ep-1",
        "task_id": "orders/refund-damaged",
        "status": "completed",
        "reward": 1.0,
        "seconds": 1.25,
        "tokens": 4,
        "sampled_tokens": 2,
        "versions": [7],
        "failure": None,
        "turns": [
            {"kind": "system", "text": "policy " * 100},
            {"kind": "user", "text": "broken\x1b[2J board"},
            {
                "kind": "assistant",
                "text": "",
                "reasoning": "look it up",
                "calls": [
                    {
                        "name": "get_order",
                        "arguments": '{"order_id":"O-1"}',
                        "content": '{"total":1}',
                        "is_error": False,
                    },
                    {"name": "nope", "arguments": "{", "content": "not valid", "is_error": True},
                ],
            },
            {"kind": "tool", "text": "said twice"},
            {"kind": "assistant", "text": "Refunded 34.90 euros."},
        ],
        "verdict": {
            "status": "graded",
            "reward": 1.0,
            "checks": [
                {
                    "name": "final state",
                    "kind": "state",
                    "passed": True,
                    "expected": "a",
                    "observed": "a",
                }
            ],
            "diff": [
                {
                    "table": "orders",
                    "op": "update",
                    "key": {"order_id": "O-1"},
                    "before": {"order_id": "O-1", "status": "placed"},
                    "after": {"order_id": "O-1", "status": "cancelled"},
                }
            ],
        },
    }


def shown(attempt: dict, whole: bool = False) -> str:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))
    console.print(render(attempt, whole=whole))
    console.file.close()
    return console.export_text()


def test_conversation_diff_and_verdict_are_shown(attempt):
    text = shown(attempt)
    assert "orders/refund-damaged  completed, reward 1" in text
    assert "4 tokens, 2 of them sampled, under policy version 7" in text
    assert 'calls  get_order(order_id="O-1")' in text
    assert "refused  not valid" in text
    assert 'status: "placed" → "cancelled"' in text
    assert "Refunded 34.90 euros." in text
    assert "said twice" not in text
    assert "✓" in text and "final state" in text


def test_long_policy_is_shortened_unless_all_is_wanted(attempt):
    assert "400 more characters" in " ".join(shown(attempt).split())
    assert "more characters" not in " ".join(shown(attempt, whole=True).split())


def test_control_characters_are_replaced(attempt):
    assert "\x1b" not in shown(attempt)
    assert "broken�[2J board" in shown(attempt)


def test_an_attempt_that_failed_says_where_and_has_no_reward(attempt):
    attempt |= {
        "status": "failed_engine",
        "reward": None,
        "verdict": None,
        "failure": {"error_class": "EngineError", "boundary": "engine", "message": "gone"},
    }
    text = shown(attempt)
    assert "failed_engine, no reward" in text
    assert "EngineError at engine: gone" in text
    assert "No verdict." in text
