"""Attempts of an evaluation as result rows of the ThinkingBox harness, which its `tb agg` reads.

One row for each (task, repetition), tasks in id order; nothing is written unless every planned key is
there with exactly one reward, and nothing else is. Rows hold no messages: a figure needs none.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envfarm.attempt_row import AttemptRow
from envfarm.errors import ConfigError

from envfarm_cli.thinkingbox.hosted_world import INDEX
from envfarm_numbers.coverage import coverage
from envfarm_numbers.rows import Campaign
from envfarm_numbers.suite import Suite

FINISH = {
    "completed": "done",
    "truncated_turns": "agent_limit",
    "truncated_calls": "agent_limit",
    "truncated_tokens": "agent_error",
}
"""Our status → the nearest of their finish reasons; whether the user or the agent ended a completed
conversation is not in a row."""


def read_index(worlds: Path) -> dict[str, str]:
    """Task id → uid, from the file that the import of hosted worlds wrote; ConfigError when it is none."""
    path = worlds / INDEX
    try:
        hosted = json.loads(path.read_bytes())["hosted"]
        found = {str(entry["id"]): str(uid) for uid, entry in hosted.items()}
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no {path}", hint="give the folder of `envfarm import thinkingbox --worlds`"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is no index of hosted worlds") from error
    if len(found) != len(hosted):
        raise ConfigError(f"{path}: two test cases share one task id")
    return found


def result_rows(
    campaign: Campaign, suite: Suite, repetitions: int, uids: Mapping[str, str]
) -> list[dict[str, Any]]:
    """ConfigError when a key is missing or unplanned, or a task is none of the import's; a campaign never
    holds two rewards for one key."""
    coverage(campaign, repetitions, suite.tasks).check()
    if strangers := sorted(suite.tasks.keys() - uids.keys()):
        raise ConfigError(
            f"{len(strangers)} tasks are not in the index of hosted worlds, such as {strangers[0]}"
        )
    clean = {(row.task_id, row.repetition): row for row in campaign.rows if row.reward is not None}
    return [
        _row(uids[task], clean[task, number])
        for task in suite.tasks
        for number in range(repetitions)
    ]


def _row(uid: str, row: AttemptRow) -> dict[str, Any]:
    file, _, name = uid.partition(":")
    theirs = next((c["upstream"] for c in row.checks if "upstream" in c), None)
    passed = theirs["result"] if theirs else row.reward == 1
    reward = theirs["reward"] if theirs else row.reward
    return {
        "uid": uid,
        "messages": [],
        "test_result": {
            "result": passed,
            "reward": reward,
            "is_system_error": False,
            "tb": "",
            "prints": "",
            "lineno": -1,
            "line_content": "",
            "metadata": {"envfarm_reward": row.reward, "envfarm_checks_hash": row.checks_hash},
        },
        "test_context": None,
        "test_tags": None,
        "tools": None,
        "raw_messages": None,
        "user_llm_history": None,
        "usage": [
            {
                "input_tokens": row.prompt_tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": row.sampled_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": row.prompt_tokens + row.sampled_tokens,
            }
        ],
        "metadata": {
            "test_case_file": file,
            "test_case_name": name,
            "repetition": row.repetition,
            "attempt": row.attempt,
            "execution_time": row.seconds,
            "time_tool": row.tool_seconds,
            "envfarm_rollout_id": row.rollout_id,
        },
        "is_system_error": False,
        "finish_reason": FINISH.get(row.status, "agent_error"),
    }
