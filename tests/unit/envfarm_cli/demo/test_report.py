"""Summary, report and exit code of the demonstration, from attempts that are known."""

import json
import re
from pathlib import Path

import pytest

from envfarm_cli.campaign import files
from envfarm_cli.campaign.folder import CampaignFolder
from envfarm_cli.campaign.narration import Narration
from envfarm_cli.campaign.stages import Stage, Stages
from envfarm_cli.demo.conclusion import conclude
from envfarm_cli.demo.recipe import DemoRecipe
from envfarm_cli.output import Output
from envfarm_numbers.report.document import lookup
from tests.support.canned_farm import row

ROOT = Path(__file__).parents[4]
TASKS = [f"counter/refund-{n}" for n in range(48)]
K = 8
RESULTS = {
    "model": {"folder": "model"},
    "proofs": {"tasks": 140, "passed": 140, "mutants": 900, "mutants_killed": 900},
    "demonstrations": {"conversations": 672, "reward_mean": 0.5, "job_id": "j"},
    "warm-start": {"steps": 600, "first_loss": 6.1, "last_loss": 0.2, "model": "m"},
    "probe": {"tasks": [], "attempts": 500},
    "select": {
        "tasks": ["counter/a"],
        "bands": {"too_hard": 3, "hard": 9, "medium": 20, "easy": 40, "too_easy": 12},
        "retained": ["hard", "medium", "easy"],
        "expected_informative_groups": 0.8,
    },
    "suite": {"hash": "ab" * 32, "tasks": 48},
    "train": {
        "updates": 3,
        "version": {"run_id": "r", "number": 3, "weights_hash": "cd" * 32},
        "groups": {
            "published": 54,
            "refilled_samples": 2,
            "replaced_zero_variance": 9,
            "filled_zero_variance": 1,
            "dropped": 0,
            "cancelled": {"zero_variance": 9},
        },
    },
}


@pytest.fixture(autouse=True, scope="module")
def quick_disk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.os, "fsync", lambda descriptor: None)
        yield


def recipe(control: str = "none") -> DemoRecipe:
    return DemoRecipe.scaled(
        seed=2,
        minutes=20,
        control=control,
        learner=ROOT / "learner/configs/tiny-cpu.toml",
        domains=ROOT / "domains",
    )


def write_attempts(path: Path, passes) -> None:
    """`passes(task index)` of the K attempts of each task pass; one more had no reward."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [row(TASKS[0], 0, 1, None)]
    for index, task in enumerate(TASKS):
        lines += [row(task, n, 2, float(n < passes(index))) for n in range(K)]
    path.write_text("".join(line.to_json() + "\n" for line in lines))


def finished(tmp_path: Path, wanted: DemoRecipe, gain: int) -> tuple[int, dict, Path]:
    runs = tmp_path / "runs"
    path = runs / wanted.run_id
    with CampaignFolder(path, wanted) as folder:
        stages = Stages(path, wanted.hash)
        for name, result in RESULTS.items():
            stages.run(Stage(name=name, work=lambda result=result: result))
        for name, more in (("before", 0), ("after", gain)):
            write_attempts(path / name / "attempts.jsonl", lambda i, m=more: min(K, i % 5 + m))
            stages.run(Stage(name=name, work=dict))
        for job in ("probe", f"gateway/jobs/{wanted.run_id}.train"):
            write_attempts(path / job / "attempts.jsonl", lambda i: i % 3)
        curve = [
            {
                "update": n,
                "version": n - 1,
                "loss": 0.1,
                "reward_mean": 0.5,
                "zero_variance_share": 0.1,
                "mismatch_gap": 1e-6,
                "clip_share": 0.0,
                "grad_norm": 1.0,
                "tokens": 1000,
                "sampled_reward": 0.4 + n / 10,
                "sampled_attempts": 144,
            }
            for n in (1, 2, 3)
        ]
        files.write_json(path / "training" / "curves.json", curve)
        code = conclude(stages, folder, wanted, runs, Narration(Output(True), 8), None)
    return code, json.loads((runs / "summary.json").read_text()), runs


def test_a_policy_that_got_better_ends_with_0_and_the_figures_of_its_attempts(tmp_path):
    code, summary, _ = finished(tmp_path, recipe(), gain=3)
    assert code == 0 and summary["better"]
    # i % 5 passes of 8 on average over 48 tasks, and three more afterwards.
    before = sum(i % 5 for i in range(48)) / 48 / 8
    assert summary["before"]["pass_at_1"] == pytest.approx(before)
    assert summary["paired"]["pass_at_1_diff"] == pytest.approx(3 / 8)
    low, high = summary["paired"]["ci95"]
    assert 0 < low <= 3 / 8 <= high
    assert summary["before"]["k"] == summary["after"]["k"] == K
    assert summary["after"]["tasks"] == 48
    assert summary["before"]["attempts"] == 48 * K + 1
    assert summary["after"]["ever_passed"] == 1.0
    assert summary["before"]["ever_passed"] == pytest.approx(38 / 48)
    assert summary["tokens"]["before"]["wasted_attempts"] == 1
    for key in ("updates", "groups", "wall_seconds", "stages", "seed", "hashes", "control"):
        assert key in summary
    assert {"published", "refilled_samples", "replaced_zero_variance", "cancelled"} <= set(
        summary["groups"]
    )


@pytest.mark.parametrize(("control", "gain"), [("none", 0), ("permuted", 0)])
def test_without_a_gain_it_says_so_and_ends_with_3(tmp_path, control, gain):
    code, summary, runs = finished(tmp_path, recipe(control), gain)
    assert code == 3 and not summary["better"]
    text = (runs / "report.md").read_text()
    assert ("no gain to be seen" if control == "permuted" else "this run proves no gain") in text


def test_a_control_that_gains_is_a_warning(tmp_path):
    code, _, runs = finished(tmp_path, recipe("permuted"), gain=3)
    assert code == 0
    assert "Do not trust the demo" in (runs / "report.md").read_text()


def test_every_number_of_the_page_is_the_one_of_summary_json(tmp_path):
    _, summary, runs = finished(tmp_path, recipe(), gain=2)
    page = (runs / "report.html").read_text()
    paths = re.findall(r'data-path="([^"]+)"', page)
    assert len(paths) > 100
    for path in paths:
        lookup(summary, path)
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert page.count("<svg") >= 6


def test_the_names_of_runs_tell_controls_from_others():
    assert recipe().run_id.startswith("demo-s2-20min-")
    assert recipe("permuted").run_id.startswith("control-s2-20min-")
    assert recipe().hash != recipe("permuted").hash
    assert recipe("permuted").learner_overrides()["control"] == {"rewards": "permuted"}
    assert "control" not in recipe().learner_overrides()
