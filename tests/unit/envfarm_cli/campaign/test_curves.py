"""Curves over updates, and what a person reads while a campaign runs."""

import json
from dataclasses import replace

import pytest
from envfarm.attempt_row import AttemptRow

from envfarm_cli.campaign import narration as module
from envfarm_cli.campaign.curves import curves, read_steps
from envfarm_cli.campaign.narration import LINE_SECONDS, Narration, minutes
from envfarm_cli.failure import BadInput
from envfarm_cli.output import Output
from tests.support.canned_farm import row


def step(update: int, **more) -> dict:
    return {"update": update, "version": update - 1, "reward_mean": 0.5, **more}


def write(folder, lines: list[dict], rest: str = "") -> None:
    (folder / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + rest)


def test_an_update_that_came_again_after_a_crash_counts_once_with_its_last_word(tmp_path):
    write(tmp_path, [step(1), step(2, loss=1), step(2, loss=2), step(3)], '{"update": 4')
    assert [(s["update"], s.get("loss")) for s in read_steps(tmp_path)] == [
        (1, None),
        (2, 2),
        (3, None),
    ]


def test_a_run_without_steps_has_none(tmp_path):
    assert read_steps(tmp_path) == []


def test_a_line_that_is_no_step_is_named(tmp_path):
    write(tmp_path, [step(1), {"loss": 3}])
    with pytest.raises(BadInput, match=r"steps\.jsonl:2: no step"):
        read_steps(tmp_path)


def test_sampled_reward_is_of_all_attempts_of_the_version_before_the_update(tmp_path):
    rows = [row("d/a", 0, 1, 1.0), row("d/a", 1, 1, 0.0), row("d/a", 2, 1, None)]
    points = curves([step(1), step(2)], rows)
    assert points[0]["sampled_reward"] == 0.5 and points[0]["sampled_attempts"] == 2
    assert points[1]["sampled_reward"] is None


def slots(group: str, version: int, rewards: list[float | None]) -> list[AttemptRow]:
    return [
        replace(
            row("d/a", slot, 1, reward),
            rollout_id=f"run.{group}.0.s{slot}.a1",
            policy_numbers=[version],
        )
        for slot, reward in enumerate(rewards)
    ]


def test_equal_rewards_are_counted_over_the_whole_groups_that_the_version_sampled():
    rows = [
        *slots("1", 0, [1.0, 1.0, 1.0]),
        *slots("2", 0, [1.0, 0.0, 1.0]),
        *slots("3", 0, [0.0, 0.0, 0.0]),
        *slots("4", 0, [0.0, 0.0, None]),
        *slots("5", 1, [1.0, 0.0, 1.0]),
    ]
    points = curves([step(1), step(2)], rows)
    assert points[0]["sampled_equal_share"] == 2 / 3
    assert points[1]["sampled_equal_share"] == 0


def test_the_few_short_attempts_of_the_last_version_are_no_point_of_the_curve():
    rows = slots("1", 0, [1.0, 0.0]) + slots("2", 1, [0.0])
    points = curves([step(1, trained_rollouts=4), step(2, trained_rollouts=4)], rows)
    assert points[0]["sampled_reward"] == 0.5
    assert points[1]["sampled_reward"] is None and points[1]["sampled_attempts"] == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (201, "3 min 21 s"), (7500, "2 h 05 min")],
)
def test_times_are_short_and_plain(seconds, text):
    assert minutes(seconds) == text


def test_where_no_bar_is_seen_a_line_comes_now_and_then_with_the_time_left(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    beats = []
    narration = Narration(Output(False), 2, lambda: beats.append(clock[0]))
    narration.stage("train", "groups become updates", "9 min")
    with narration.meter("updates", 100) as meter:
        for done in range(0, 50):
            clock[0] += 1.0
            meter.at(done, "reward 0.5")
    said = capsys.readouterr().out
    assert "1/2 train" in said and "groups become updates (9 min)" in said
    lines = [line for line in said.splitlines() if "updates:" in line]
    assert len(lines) == int(49 // LINE_SECONDS)
    assert "updates: 19 of 100; about 1 min 2" in lines[0] and "reward 0.5" in lines[0]
    assert len(beats) == 50
