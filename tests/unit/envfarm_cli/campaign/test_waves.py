"""Keyed attempts: every (task, repetition) gets exactly one reward, whatever fails and whatever is
killed."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from envfarm.v1 import gateway_service_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from envfarm_cli.campaign import files
from envfarm_cli.campaign.evaluation import Plan, evaluate
from envfarm_cli.campaign.waves import Waves
from envfarm_cli.failure import BadInput, Failure
from envfarm_numbers.rows import read_campaign
from envfarm_numbers.suite import Suite
from tests.support.canned_farm import Silent, canned_farm

TASKS = ["d/a", "d/b", "d/c"]


@pytest.fixture(autouse=True, scope="module")
def quick_disk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.os, "fsync", lambda descriptor: None)
        yield


def waves(folder, farm) -> Waves:
    return Waves(
        folder=folder,
        name="e",
        farm=farm,
        kind=gateway_service_pb2.JOB_KIND_EVAL,
        run_id="run",
        seed=1,
    )


def plan(k: int = 2) -> Plan:
    suite = Suite("s", {task: f"hash of {task}" for task in TASKS}, {})
    return Plan(name="e", suite=suite, k=k, seed=1, run_id="run", policy=None)


def ignore(job, rows) -> None: ...


def test_slots_of_a_repair_keep_the_repetition_they_stand_for(tmp_path):
    def rule(task, slot, attempt, job):
        return None if job == "e.w0" and (task, slot) in {("d/a", 1), ("d/c", 3)} else 1.0

    farm = canned_farm(tmp_path / "gateway", rule, TASKS)
    family = waves(tmp_path, farm)
    keys = [(task, number) for task in TASKS for number in range(4)]
    family.play(keys, ignore)
    assert family.open_keys(keys) == [("d/a", 1), ("d/c", 3)]
    family.play(family.open_keys(keys), ignore)
    assert family.open_keys(keys) == []
    repaired = [row for row in family.rows() if (row.task_id, row.repetition) == ("d/c", 3)]
    assert [(row.attempt, row.reward) for row in repaired] == [(1, None), (2, 1.0)]


def test_tasks_with_different_gaps_go_in_jobs_of_their_own_size(tmp_path):
    farm = canned_farm(tmp_path / "gateway", lambda *_: 1.0, TASKS)
    family = waves(tmp_path, farm)
    family.play([("d/a", 0), ("d/b", 0), ("d/b", 1), ("d/c", 5)], ignore)
    written = json.loads((tmp_path / "waves-e.json").read_text())["waves"]
    assert [(wave["size"], wave["tasks"]) for wave in written] == [
        (2, {"d/b": [0, 1]}),
        (1, {"d/a": [0], "d/c": [5]}),
    ]


def test_a_campaign_that_was_killed_goes_on_with_the_same_jobs(tmp_path):
    class Killed(BaseException): ...

    def kill(job, rows):
        raise Killed

    farm = canned_farm(tmp_path / "gateway", lambda *_: 1.0, TASKS)
    with pytest.raises(Killed):
        waves(tmp_path, farm).play([("d/a", 0)], kill)
    again = waves(tmp_path, farm)
    again.finish(ignore)
    assert again.open_keys([("d/a", 0)]) == []
    assert farm.gateway.submitted == ["e.w0", "e.w0"]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_pattern_of_failures_ends_with_one_reward_a_key_or_says_what_is_missing(
    data, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("eval")
    answers = st.sampled_from([1.0, 0.0, None])
    seen: dict = {}

    def rule(task, slot, attempt, job):
        key = (task, slot, attempt, job)
        if key not in seen:
            seen[key] = data.draw(answers)
        return seen[key]

    farm = canned_farm(folder / "gateway", rule, TASKS, attempts_per_slot=2)
    wanted = plan()
    try:
        rows = evaluate(wanted, farm, folder, Silent())
    except Failure as failure:
        assert "no figure is given" in failure.message
        rows = waves(folder, farm).rows()
    else:
        rewarded = Counter((r.task_id, r.repetition) for r in rows if r.reward is not None)
        assert rewarded == Counter(wanted.keys)
    keys = [(row.task_id, row.repetition, row.attempt) for row in rows]
    assert len(keys) == len(set(keys))
    # Nothing is run again by looking once more.
    jobs = set(farm.gateway.submitted)
    waves(folder, farm).finish(ignore)
    assert set(farm.gateway.submitted) == jobs


def test_without_full_coverage_there_is_no_figure_and_the_reason_is_named(tmp_path):
    farm = canned_farm(tmp_path / "gateway", lambda task, *_: None if task == "d/b" else 1.0, TASKS)
    with pytest.raises(Failure, match=r"coverage 4 of 6 \(66\.7 %\).*EngineError") as failure:
        evaluate(plan(), farm, tmp_path, Silent())
    assert failure.value.hint.endswith("attempts.jsonl")
    lines = (tmp_path / "attempts.jsonl").read_text().splitlines()
    # The first wave and three repairs.
    assert len(lines) == 4 + 2 * 4


def test_a_suite_that_changed_is_refused_before_anything_runs(tmp_path):
    farm = canned_farm(tmp_path / "gateway", lambda *_: 1.0, TASKS[:2])
    with pytest.raises(Exception, match="not as they were frozen"):
        evaluate(plan(), farm, tmp_path, Silent())
    assert farm.gateway.submitted == []


def test_damaged_waves_are_one_line(tmp_path):
    (tmp_path / "waves-e.json").write_text('{"waves": [{"colour": 1}]}')
    with pytest.raises(BadInput, match="is damaged"):
        waves(tmp_path, canned_farm(tmp_path, lambda *_: 1.0, TASKS))


def test_rows_can_be_reported_while_a_wave_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("envfarm_cli.campaign.waves.SAVE_SECONDS", -1.0)
    farm = canned_farm(tmp_path / "gateway", lambda *_: 1.0, TASKS)
    waves(tmp_path, farm).play([("d/a", 0), ("d/a", 1)], ignore)
    assert len(read_campaign(tmp_path).rows) == 2


def test_what_a_chat_endpoint_refused_is_not_asked_for_again(tmp_path):
    farm = canned_farm(tmp_path / "gateway", lambda *_: None, TASKS)
    farm.gateway.error_class = "EndpointRefused"
    with pytest.raises(Failure, match=r"EndpointRefused × 6; the first: gone"):
        evaluate(replace(plan(), interface="chat"), farm, tmp_path, Silent())
    assert farm.gateway.submitted == ["e.w0"]
    assert farm.gateway.interfaces == {"chat"}


def test_a_task_that_an_endpoint_refused_once_does_not_stop_the_repair_of_others(tmp_path):
    def rule(task, slot, attempt, job):
        return None if job == "e.w0" and task == "d/a" else 1.0

    farm = canned_farm(tmp_path / "gateway", rule, TASKS)
    assert len(evaluate(plan(), farm, tmp_path, Silent())) == 8
