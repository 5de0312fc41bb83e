"""A group that the scripted policy plays, from a task to `envfarm episode show`, without vLLM."""

import json
from pathlib import Path

import pytest
import yaml
from envfarm.v1 import gateway_service_pb2, policy_pb2

from envfarm_cli.gateway_client import GatewayClient
from envfarm_cli.records import outcomes
from envfarm_cli.scripted_policy import CONSTANT_LOGPROB
from envfarm_cli.state_dir import StateDir
from tests.support.envfarm_command import ROOT, Envfarm

SHOWN_TASK = "refund-damaged"
TASKS = sorted(path.stem for path in (ROOT / "domains/orders/world/tasks").glob("*.yaml"))

SHOWN = f"all.{TASKS.index(SHOWN_TASK)}.0.s0.a1"


@pytest.fixture(scope="module")
def farm(warm: Envfarm):
    try:
        warm.up()
        yield warm
    finally:
        warm.run("down")


@pytest.fixture(scope="module")
def gateway(farm: Envfarm):
    state = StateDir(farm.state)
    now = state.read()
    assert now is not None
    process = now.find("gateway")
    assert process is not None
    with GatewayClient(process.grpc, state.secrets()["gateway_infra"]) as client:
        announce(client, next((farm.state / "models").iterdir()))
        yield client


def announce(client: GatewayClient, weights: Path) -> None:
    client.announce(
        policy_pb2.WeightUpdate(
            version=policy_pb2.PolicyVersion(run_id="r", number=0, weights_hash="ab" * 32),
            path=str(weights),
            probe=policy_pb2.ProbePrompt(
                token_ids=[5, 6, 7], logprobs=[CONSTANT_LOGPROB] * 2, tolerance=1e-6
            ),
            learner_epoch=1,
        )
    )


@pytest.fixture(scope="module")
def played(farm: Envfarm, gateway: GatewayClient) -> dict[str, list[float]]:
    """Rewards of one group of 4 of every task, in one job; task index = place in TASKS."""
    request = gateway_service_pb2.SubmitJobRequest(
        job_id="all",
        run_id="r",
        task_ids=[f"orders/{slug}" for slug in TASKS],
        groups_per_task=1,
        group_size=4,
        publish=True,
        keep_zero_variance=True,
    )
    gateway.submit(request)
    job = gateway.wait_for_job("all", 240, lambda job: None)
    assert (job.groups_published, job.groups_cancelled, job.refilled_samples) == (12, 0, 0)
    found = outcomes(farm.state / "gateway", "all")
    return {outcome.task.task_id: list(outcome.rewards) for outcome in found}


@pytest.mark.parametrize("slug", TASKS)
def test_golden_slots_earn_the_reward_and_lazy_ones_only_where_nothing_is_to_be_done(played, slug):
    private = yaml.safe_load((ROOT / f"domains/orders/private/{slug}.yaml").read_text())
    lazy = 1.0 if private.get("empty") == "passes" else 0.0
    assert played[f"orders/{slug}"] == [1.0, lazy, 1.0, lazy]


def test_a_recorded_attempt_is_shown_with_its_calls_diff_and_verdict(farm, played):
    shown = farm.run("episode", "show", SHOWN)
    assert shown.code == 0
    for piece in (
        "issue_refund(",
        "state diff",
        "refunds",
        "inserted",
        "verdict: graded, reward 1",
    ):
        assert piece in shown.out


def test_the_gateway_gives_the_same_attempt_over_http(farm, played):
    state = StateDir(farm.state)
    now = state.read()
    assert now is not None
    process = now.find("gateway")
    assert process is not None
    token = state.secrets()["gateway_infra"]
    wanted = ("episode", "show", SHOWN, "--json")
    over_http = farm.run(*wanted, "--gateway", process.http, "--token", token)
    assert over_http.json["attempt"] == farm.run(*wanted).json["attempt"]


def test_jobs_are_submitted_followed_and_listed(farm, played, tmp_path):
    file = tmp_path / "job.json"
    body = {
        "job_id": "two",
        "run_id": "r",
        "kind": "probe",
        "task_ids": [f"orders/{SHOWN_TASK}"],
        "groups_per_task": 2,
        "group_size": 2,
    }
    file.write_text(json.dumps(body))
    followed = farm.run("jobs", "submit", str(file), "--watch", "--json")
    assert followed.code == 0, followed.err
    assert followed.json["job"]["state"] == "JOB_STATE_DONE"
    assert (followed.json["job"]["groups_recorded"], followed.json["job"]["attempts"]) == (2, 4)
    # Other tests have played on this farm before.
    listed = [job["job_id"] for job in farm.run("jobs", "list", "--json").json["jobs"]]
    assert [job_id for job_id in listed if job_id in {"all", "two"}] == ["all", "two"]
    assert "done: 2 of 2 groups · 4 attempts" in farm.run("jobs", "watch", "two").out
    assert farm.run("jobs", "show", "two", "--json").json["slots"] == []


def test_what_is_wrong_with_a_job_is_one_line(farm, played, tmp_path):
    assert "there is no job none" in farm.run("jobs", "show", "none").err
    assert "all is done" in farm.run("jobs", "cancel", "all").out
    assert "job all is done" in farm.run("jobs", "resume", "all").err
    damaged = tmp_path / "job.toml"
    damaged.write_text("job_id = ")
    answer = farm.run("jobs", "submit", str(damaged))
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "job.toml" in answer.err
