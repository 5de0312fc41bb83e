"""Validations: asked for before their versions exist, counted by task, never silently missing."""

import pytest
from envfarm.v1 import policy_pb2

from envfarm_cli.campaign import files, validation
from envfarm_cli.campaign.evaluation import Plan
from envfarm_cli.campaign.validation import Validations
from envfarm_cli.failure import Failure
from envfarm_numbers.suite import Suite
from tests.support.canned_farm import canned_farm

TASKS = ["d/a", "d/b"]


@pytest.fixture(autouse=True, scope="module")
def quick():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.os, "fsync", lambda descriptor: None)
        patch.setattr(validation, "POLL_SECONDS", 0.0)
        yield


def plans(*numbers: int) -> dict[int, Plan]:
    suite = Suite("v", {task: f"hash of {task}" for task in TASKS}, {})
    return {
        number: Plan(
            name=f"r.v{number}",
            suite=suite,
            k=4,
            seed=1,
            run_id="r",
            policy=policy_pb2.PolicyVersion(run_id="r", number=number),
        )
        for number in numbers
    }


def rule(task, slot, attempt, job):
    """Version n passes the first n of four attempts of d/a, and every one of d/b."""
    return 1.0 if task == "d/b" else float(slot < int(job.split(".v")[1].split(".")[0]))


def test_all_are_submitted_at_once_and_counted_by_task(tmp_path):
    farm = canned_farm(tmp_path / "gateway", rule, TASKS)
    found = Validations(plans(0, 2, 4), farm, tmp_path / "validation")
    assert found.advance()
    assert farm.gateway.submitted == ["r.v0.w0", "r.v2.w0", "r.v4.w0"]
    assert found.finish() == []
    shown = [
        (v["version"], v["pass_at_1"], v["ever_passed"], v["always_passed"])
        for v in found.results()
    ]
    assert shown == [(0, 0.5, 1, 1), (2, 0.75, 2, 1), (4, 1.0, 2, 2)]
    assert len((tmp_path / "validation/version-2.jsonl").read_text().splitlines()) == 8


def test_a_validation_whose_version_has_gone_is_given_up_and_named(tmp_path):
    farm = canned_farm(tmp_path / "gateway", rule, TASKS)
    farm.gateway.waiting.add("r.v2.w0")
    farm.in_service = lambda: policy_pb2.PolicyVersion(run_id="r", number=4)
    found = Validations(plans(0, 2, 4), farm, tmp_path / "validation")
    assert found.finish() == [2]
    assert farm.gateway.cancelled == ["r.v2.w0"]
    assert [v["version"] for v in found.results()] == [0, 4]


def test_attempts_without_a_reward_are_no_figure(tmp_path):
    farm = canned_farm(tmp_path / "gateway", lambda task, *_: None if task == "d/a" else 1.0, TASKS)
    found = Validations(plans(0), farm, tmp_path / "validation")
    with pytest.raises(Failure, match=r"version 0: coverage 4 of 8"):
        found.finish()
