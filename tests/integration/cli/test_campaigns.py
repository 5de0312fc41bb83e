"""eval, probe and train as a user runs them, on a running stack whose policy answers from a script.

Golden slots pass and lazy ones fail, so every figure is known in advance.
"""

import json
import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest
from envfarm.record_frames import FILE, HEAD, ROLLOUT, read_frames
from envfarm.v1 import group_pb2

from envfarm_cli.gateway_client import GatewayClient
from envfarm_cli.state_dir import StateDir
from tests.support.envfarm_command import ROOT, Envfarm, until

TASKS = 12
K = 10
RECIPE = ROOT / "learner/configs/tiny-cpu.toml"
RUN = """
seed = 3
[tasks]
domain = "orders"
tags = {workflow = "refund"}
[train]
updates = 2
groups_per_update = 1
group_size = 4
staleness = 1
[validation]
every = 1
k = 2
domain = "orders"
tags = {workflow = "cancellation"}
# The scripted policy answers one made-up log-probability; nothing can agree with it.
[overrides.admission]
mismatch_tolerance = 1e9
[overrides.publish]
probe_tolerance = 1e9
[overrides.run]
checkpoint_every = 1
keep_weights = 4
"""


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
        yield client


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def recorded(farm: Envfarm, job: str) -> list[str]:
    """Lines that the gateway has written of a job so far."""
    paths = (farm.state / "gateway" / "jobs").glob(f"{job}/attempts.jsonl")
    return [line for path in paths for line in path.read_text().splitlines()]


def evaluate(farm: Envfarm, runs: Path, *more: str):
    return farm.run(
        *("eval", "--name", "whole", "--domain", "orders", "-k", str(K)),
        *("--runs", str(runs), "--json", *more),
    )


def test_an_evaluation_that_was_killed_goes_on_and_repeats_nothing(farm, gateway, tmp_path):
    command = ("eval", "--name", "whole", "--domain", "orders", "-k", str(K))
    process = farm.start(*command, "--runs", str(tmp_path), "--state-dir", str(farm.state))
    assert until(lambda: len(recorded(farm, "whole-*")) > 5, 60)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    answer = evaluate(farm, tmp_path)
    assert answer.code == 0, answer.err
    found = rows(tmp_path / "whole" / "attempts.jsonl")
    keys = Counter((row["task_id"], row["repetition"]) for row in found)
    assert len(keys) == TASKS * K and set(keys.values()) == {1}
    assert len([job for job in gateway.status().jobs if job.job_id.startswith("whole-")]) == 1

    figures = answer.json
    assert (figures["k"], figures["tasks"], figures["attempts"]) == (K, TASKS, TASKS * K)
    # Even slots are golden; doing nothing is right in the tasks that ask for nothing.
    always = {task for task, reward in mean_rewards(found).items() if reward == 1.0}
    assert figures["pass_at_1"] == pytest.approx((len(always) + (TASKS - len(always)) / 2) / TASKS)
    assert figures["observed_k"] == pytest.approx(len(always) / TASKS)
    assert figures["ever_passed"] == 1.0

    before = os.stat(tmp_path / "whole" / "attempts.jsonl").st_mtime_ns
    again = evaluate(farm, tmp_path)
    assert again.code == 0 and again.json == figures
    assert os.stat(tmp_path / "whole" / "attempts.jsonl").st_mtime_ns == before


def mean_rewards(found: list[dict]) -> dict[str, float]:
    by_task: dict[str, list[float]] = {}
    for row in found:
        by_task.setdefault(row["task_id"], []).append(row["reward"])
    return {task: sum(rewards) / len(rewards) for task, rewards in by_task.items()}


def test_a_campaign_with_another_recipe_is_refused_and_says_what_changed(farm, gateway, tmp_path):
    base = ("eval", "--name", "twice", "--domain", "orders", "--runs", str(tmp_path))
    assert farm.run(*base, "-k", "2").code == 0
    other = farm.run(*base, "-k", "3")
    assert other.code == 2
    assert "k was 2 and is 3" in other.err and "--fresh" in other.err


def test_a_probe_says_its_cost_first_and_stops_by_the_rule(farm, gateway, tmp_path):
    answer = farm.run(
        *("probe", "--name", "probed", "--domain", "orders", "--cap", "8", "--runs"),
        *(str(tmp_path), "--json"),
    )
    assert answer.code == 0, answer.err
    found = answer.json
    assert len(found["tasks"]) == TASKS
    assert sum(found["bands"].values()) == TASKS
    assert found["attempts"] == len(rows(tmp_path / "probed" / "attempts.jsonl"))
    assert {task["stopped"] for task in found["tasks"]} <= {"confident", "settled", "cap"}
    shown = farm.run(
        *("probe", "--name", "dry", "--domain", "orders", "--dry-run"),
        *("--runs", str(tmp_path)),
    )
    assert "expected cost" in shown.out


def test_a_recipe_that_samples_otherwise_than_the_gateway_is_refused_before_it_starts(
    farm, gateway, tmp_path
):
    recipe = tmp_path / "hotter.toml"
    recipe.write_text(f'learner = "{RECIPE}"\n{RUN}')
    command = ("train", str(recipe), "--runs", str(tmp_path / "runs"))
    refused = farm.run(*command, "--set", "overrides.sampling.temperature=0.5")
    assert refused.code == 1
    assert "sampling: the gateway samples otherwise" in refused.err
    assert "GATEWAY_TEMPERATURE" in refused.err


def test_a_training_is_refused_while_recorded_attempts_would_be_rendered_otherwise_today(
    farm, gateway, tmp_path
):
    small = ("eval", "--name", "small", "--domain", "orders", "-k", "1", "--runs", str(tmp_path))
    assert farm.run(*small).code == 0
    jobs = farm.state / "gateway" / "jobs"
    bent = jobs / "bent"
    shutil.copytree(next(jobs.glob("small-*")), bent)
    frames = [(kind, message) for kind, message, _ in read_frames(bent / FILE)]
    first = next(place for place, (kind, _) in enumerate(frames) if kind == ROLLOUT)
    rollout = group_pb2.Rollout.FromString(frames[first][1])
    rollout.trajectory.token_ids[1] ^= 1
    frames[first] = (ROLLOUT, rollout.SerializeToString())
    (bent / FILE).write_bytes(b"".join(HEAD.pack(k, len(m)) + m for k, m in frames))
    recipe = tmp_path / "after.toml"
    recipe.write_text(f'learner = "{RECIPE}"\n{RUN}')
    try:
        refused = farm.run("train", str(recipe), "--runs", str(tmp_path / "runs"))
    finally:
        shutil.rmtree(bent)
    assert refused.code == 1
    assert "parity: " in refused.err and rollout.rollout_id in refused.err


@pytest.mark.timeout(300)
def test_a_training_run_goes_from_preflight_to_report(farm, gateway, tmp_path):
    recipe = tmp_path / "tiny-run.toml"
    recipe.write_text(f'learner = "{RECIPE}"\n{RUN}')
    command = ("train", str(recipe), "--runs", str(tmp_path / "runs"), "--json")
    answer = farm.run(*command)
    assert answer.code == 0, answer.err
    found = answer.json
    assert found["updates"] == 2
    assert found["version"]["number"] == 2
    assert found["groups"]["published"] >= 2
    assert [one["version"] for one in found["validations"]] == [0, 1, 2]
    assert all(one["tasks"] > 0 and one["pass_at_1"] is not None for one in found["validations"])
    assert found["best_version"] in (0, 1, 2)
    folder = tmp_path / "runs" / "tiny-run"
    report = (folder / "report.md").read_text()
    assert "(best)" in report and "Groups: " in report
    curve = json.loads((folder / "curves.json").read_text())
    assert [point["update"] for point in curve] == [1, 2]
    assert farm.run(*command).json == found
