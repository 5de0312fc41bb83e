import json
from dataclasses import replace

import pytest
from envfarm.attempt_row import AttemptRow
from envfarm.errors import ConfigError

ROW = AttemptRow(
    task_id="orders/cancel-placed",
    task_hash="a" * 64,
    world_hash="b" * 64,
    tags={"workflow": "cancellation"},
    repetition=0,
    attempt=1,
    rollout_id="job.g0.s0.a1",
    episode_id="ep-1",
    status="completed",
    reward=1.0,
    interface="tokens",
    policy_run="run",
    policy_numbers=[3],
    policy_hash="c" * 64,
    renderer_hash="d" * 64,
    sampling_hash="e" * 64,
    checks_hash="f" * 64,
    initial_state_hash="0" * 64,
    final_state_hash="1" * 64,
    prompt_tokens=300,
    sampled_tokens=40,
    user_tokens=0,
    judge_tokens=0,
    turns=3,
    tool_calls=2,
    tool_errors=0,
    seconds=1.5,
    tool_seconds=0.25,
    checks=[{"name": "state", "kind": "state", "passed": True}],
    writes={"orders": {"update": 1}},
    error_class="",
    boundary="",
    message="",
)


def test_a_row_comes_back_from_its_line():
    assert AttemptRow.from_json(ROW.to_json(), "line 1") == ROW


def test_a_row_without_reward_comes_back_without_one():
    row = replace(ROW, reward=None, status="failed_env", error_class="EnvError", boundary="env")
    assert AttemptRow.from_json(row.to_json(), "line 1").reward is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reward": "1"}, "reward cannot be '1'"),
        ({"reward": True}, "reward cannot be True"),
        ({"repetition": -1}, "repetition cannot be -1"),
        ({"turns": 1.5}, "turns cannot be 1.5"),
        ({"seconds": None}, "seconds cannot be None"),
        ({"interface": "voice"}, "interface cannot be 'voice'"),
        ({"tags": []}, "tags cannot be []"),
        ({"extra": 1}, "unknown keys: extra"),
    ],
)
def test_a_row_of_the_wrong_shape_is_refused_by_place_and_key(
    change: dict[str, object], words: str
):
    line = json.dumps(json.loads(ROW.to_json()) | change)
    with pytest.raises(ConfigError) as refused:
        AttemptRow.from_json(line, "attempts.jsonl line 7")
    assert refused.value.message == f"attempts.jsonl line 7: {words}"


def test_a_missing_key_is_named():
    value = json.loads(ROW.to_json())
    del value["reward"]
    with pytest.raises(ConfigError, match="line 2: missing keys: reward"):
        AttemptRow.from_json(json.dumps(value), "line 2")


@pytest.mark.parametrize("line", ["", "{", "[]", '{"reward": NaN}'])
def test_what_is_no_object_is_refused(line: str):
    with pytest.raises(ConfigError, match=r"^line 3: "):
        AttemptRow.from_json(line, "line 3")
