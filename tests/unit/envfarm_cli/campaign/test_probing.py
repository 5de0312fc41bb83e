"""Probing asks for what the rule wants, never counts a failure of ours, and stops for a named reason."""

import pytest

from envfarm_cli.campaign import files
from envfarm_cli.campaign.probing import ProbePlan, Standing, next_keys, probe, why
from envfarm_numbers.probing import StoppingRule
from tests.support.canned_farm import Silent, canned_farm

TASKS = ["d/a", "d/b"]


@pytest.fixture(autouse=True, scope="module")
def quick_disk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.os, "fsync", lambda descriptor: None)
        yield


def plan(budget: int = 0, **limits) -> ProbePlan:
    rule = StoppingRule(**{"minimum": 3, "cap": 8, "worth": 400.0, **limits})
    return ProbePlan(
        name="p",
        tasks=TASKS,
        rule=rule,
        at_once=2,
        budget=budget,
        seed=1,
        run_id="run",
        policy=None,
    )


def test_tasks_that_always_pass_end_long_before_the_cap(tmp_path):
    farm = canned_farm(tmp_path / "gateway", lambda *_: 1.0, TASKS)
    found = probe(plan(cap=64), farm, tmp_path, Silent())
    assert {task["band"] for task in found} == {"too_easy"}
    assert all(3 <= task["clean"] < 64 for task in found)
    assert {task["stopped"] for task in found} <= {"confident", "settled"}


def test_attempts_without_reward_are_run_again_and_never_count(tmp_path):
    def rule(task, slot, attempt, job):
        return None if task == "d/a" and job == "p.w0" else 1.0

    farm = canned_farm(tmp_path / "gateway", rule, TASKS)
    found = {task["task_id"]: task for task in probe(plan(), farm, tmp_path, Silent())}
    assert found["d/a"]["excused"] > 0
    assert found["d/a"]["passed"] == found["d/a"]["clean"] >= 3
    lines = (tmp_path / "attempts.jsonl").read_text().splitlines()
    assert len(lines) == sum(task["clean"] + task["excused"] for task in found.values())


def test_a_task_that_never_gets_a_reward_is_given_up_and_named(tmp_path):
    farm = canned_farm(tmp_path / "gateway", lambda task, *_: None if task == "d/a" else 0.0, TASKS)
    found = {task["task_id"]: task for task in probe(plan(), farm, tmp_path, Silent())}
    assert found["d/a"]["stopped"] == "no reward"
    assert found["d/a"]["clean"] == 0
    assert found["d/b"]["band"] == "too_hard"


def test_the_budget_bounds_all_attempts(tmp_path):
    farm = canned_farm(tmp_path / "gateway", lambda t, slot, *_: float(slot % 2), TASKS)
    found = probe(plan(budget=5, cap=64), farm, tmp_path, Silent())
    assert sum(task["clean"] + task["excused"] for task in found) == 5
    assert "budget" in {task["stopped"] for task in found}


def test_open_repetitions_are_asked_again_before_new_ones():
    one = Standing(passed=1, clean=2, asked=4, open=[1, 3])
    keys = next_keys(plan(), {"d/a": one, "d/b": Standing(asked=0)}, 4)
    assert keys[:2] == [("d/a", 1), ("d/a", 3)]
    new = [number for task, number in keys if task == "d/b"]
    assert new == list(range(max(2, plan().rule.surely_more())))


def test_no_task_is_asked_for_more_than_the_cap():
    one = Standing(passed=4, clean=7, asked=7)
    assert next_keys(plan(), {"d/a": one, "d/b": Standing(8, 8, 0, 8)}, 15) in ([("d/a", 7)], [])
    assert why(plan(), Standing(4, 8, 0, 8), 8) == "cap"


def test_the_forecast_is_made_before_anything_runs():
    assert plan().expected_attempts >= 3 * len(TASKS)
