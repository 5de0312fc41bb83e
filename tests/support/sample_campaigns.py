"""Two evaluations of the same tasks, the second better: all that a report can show happens in them."""

from pathlib import Path

import numpy as np

from tests.support.attempts import digest, row, write_rows

WORKFLOWS = ("refund", "cancel", "address", "ticket")
DOMAINS = ("orders", "counter", "billing")
WRITES = ({}, {"refunds": {"insert": 1}}, {"refunds": {"insert": 2}}, {"customers": {"update": 1}})
PRICES = """\
date = 2026-11-01
currency = "USD"
source = "two accelerators at full load"
[policy]
prompt = 0.2
sampled = 1.6
[hours]
environment = 0.05
"""


def sample_campaign(folder: Path, *, gain: float, policy: str, tasks: int = 96, k: int = 8) -> Path:
    """A folder with attempts.jsonl; `gain` is added to every task's pass rate."""
    random, attempts = np.random.default_rng(3), []
    rates = np.clip(np.random.default_rng(7).beta(0.6, 0.6, tasks) + gain, 0, 1)
    for i, rate in enumerate(rates):
        task = f"{DOMAINS[i % 3]}/task-{i:02}"
        tags = {"workflow": WORKFLOWS[i % 4], "failure_mode": "x", "split": "eval"}
        for repetition in range(k):
            passed = random.random() < rate
            writes = WRITES[1] if passed else WRITES[random.integers(4)]
            common = {"policy_hash": digest(policy), "tags": tags}
            lost = random.random() < 0.02
            if lost:
                attempts.append(row(task, repetition, None, **common))
            attempts.append(
                row(
                    task,
                    repetition,
                    float(passed),
                    attempt=2 if lost else 1,
                    writes=writes,
                    sampled_tokens=int(random.gamma(3, 80)),
                    seconds=float(random.gamma(2, 3)),
                    **common,
                )
            )
    write_rows(folder / "attempts.jsonl", attempts)
    return folder


def sample_record(task: str, rollout_id: str, *, passed: bool) -> dict[str, object]:
    """A line of conversations.jsonl, with text that tries to be markup."""
    return {
        "rollout_id": rollout_id,
        "episode_id": f"ep-{rollout_id}",
        "task_id": task,
        "turns": [
            {"kind": "system", "text": "Policy.", "tokens": 3},
            {"kind": "user", "text": "<script>alert(1)</script> cancel O-1", "tokens": 9},
            {
                "kind": "assistant",
                "text": "Done.",
                "tokens": 4,
                "calls": [
                    {
                        "name": "cancel_order",
                        "arguments": '{"order_id": "O-1"}',
                        "content": "</script><img src=x onerror=alert(2)>",
                        "is_error": False,
                        "seconds": 0.01,
                    }
                ],
            },
        ],
        "final_reply": "Done.",
        "verdict": {
            "status": "graded",
            "reward": float(passed),
            "checks": [
                {
                    "name": "final state",
                    "kind": "state",
                    "passed": passed,
                    "expected": "cancelled",
                    "observed": "cancelled" if passed else "placed",
                }
            ],
            "diff": [
                {
                    "table": "orders",
                    "op": "update",
                    "key": {"order_id": "O-1"},
                    "before": {"status": "placed"},
                    "after": {"status": "cancelled"},
                }
            ],
        },
    }
