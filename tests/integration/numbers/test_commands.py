"""The commands on files, as a user runs them, in one process."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from envfarm_cli.main import main
from tests.support.attempts import row, rows_of, write_rows
from tests.support.sample_campaigns import PRICES, sample_campaign, sample_record

DOMAINS = Path(__file__).parents[3] / "domains"


@dataclass
class Command:
    """Runs `envfarm` and gives its exit code, its JSON and what it told people."""

    capture: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str, code: int = 0) -> dict:
        self.capture.readouterr()
        found = main([*arguments, "--json"])
        said = self.capture.readouterr()
        assert found == code, said
        assert "Traceback" not in said.err
        return json.loads(said.out)

    def text(self, *arguments: str) -> str:
        self.capture.readouterr()
        assert main(list(arguments)) == 0
        return self.capture.readouterr().out


@pytest.fixture
def envfarm(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Command(capsys)


@pytest.fixture
def before(tmp_path):
    return sample_campaign(tmp_path / "before", gain=0.0, policy="before", tasks=48)


@pytest.fixture
def after(tmp_path):
    return sample_campaign(tmp_path / "after", gain=0.2, policy="after", tasks=48)


def test_a_selection_is_written_once_and_again_with_the_same_bytes(envfarm, before, tmp_path):
    answer = envfarm("select", str(before), "--only-rows", "--out", "selection")
    folder = tmp_path / "selection"
    names = {"manifest.json", "tasks.jsonl", "train.json", "validation.json"}
    assert {path.name for path in folder.iterdir()} == names
    content = {path.name: path.read_bytes() for path in folder.iterdir()}
    envfarm("select", str(before), "--only-rows", "--out", "selection")
    assert content == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert answer["train"] + answer["validation"] == answer["selected"]
    assert len(answer["rejected"]) == answer["candidates"] - answer["selected"]
    other = envfarm(
        "select", str(before), "--only-rows", "--out", "selection", "--seed", "1", code=2
    )
    assert "holds another selection" in other["message"]


def test_selected_tasks_of_a_domain_know_their_tags_and_copies(envfarm, tmp_path):
    frozen = envfarm("suite", "freeze", "held-out", "--domains", str(DOMAINS), "--domain", "orders")
    tasks = frozen["tasks"]
    rows = [
        row(task, i, float(i < 3), task_hash=known)
        for task, known in tasks.items()
        for i in range(6)
    ]
    rows += rows_of({"orders/never-was": (3, 6)})
    path = write_rows(tmp_path / "probe" / "attempts.jsonl", rows)
    answer = envfarm("select", str(path), "--domains", str(DOMAINS), "--out", "selection")
    assert answer["selected"] == len(tasks)
    assert answer["rejected"] == {"orders/never-was": ["unknown: no domain has this task"]}
    refused = envfarm(
        "select", str(path), "--domains", str(DOMAINS), "--exclude", frozen["file"], code=2
    )
    assert "excluded" in refused["message"] or "none of" in refused["message"]


def test_wrong_input_is_one_line_with_file_and_reason(envfarm, before):
    path = before / "attempts.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines) + lines[-1].replace('"repetition": 7', '"repetition": "7"'))
    answer = envfarm("select", str(before), "--only-rows", code=2)
    assert answer["message"] == f"{path}:{len(lines) + 1}: repetition cannot be '7'"
    for arguments in (
        ("select", "nowhere"),
        ("select", str(before), "--band", "tough"),
        ("select", str(before), "--reference-rate-above", "0.5"),
        ("compare", "nowhere", "nowhere"),
        ("report", "nowhere"),
        ("suite", "show", "nowhere.json"),
        ("suite", "freeze", "x", "--task", "orders/nothing", "--domains", str(DOMAINS)),
    ):
        assert envfarm(*arguments, code=2)["message"]


def test_a_comparison_is_shown_written_and_the_same_everywhere(envfarm, before, after, tmp_path):
    (tmp_path / "prices.toml").write_text(PRICES)
    answer = envfarm("compare", str(before), str(after), "--prices", "prices.toml", "--out", "out")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {key: answer[key] for key in summary} == summary
    shown = envfarm.text("compare", str(before), str(after), "--prices", "prices.toml")
    assert "cost of A" in shown and "per dependable task" in shown
    value = summary["paired"]["differences"][0]["value"]
    assert f"{value * 100:+.2f}" in shown
    text = (tmp_path / "out" / "report.md").read_text()
    assert f"{value * 100:+.2f}" in text
    assert sum(summary["a"]["failures"].values()) > 0


def test_one_task_side_by_side_with_its_conversations(envfarm, before, after, tmp_path):
    record = sample_record("orders/task-00", "orders/task-00.0.a1", passed=False)
    (after / "conversations.jsonl").write_text(json.dumps(record) + "\n")
    answer = envfarm("compare", str(before), str(after), "--task", "orders/task-00", "--out", "one")
    attempts = answer["campaigns"][1]["attempts"]
    assert attempts[0]["diff"] == ["update orders O-1: status placed → cancelled"]
    page = (tmp_path / "one" / "report.html").read_text()
    assert "<script>alert" not in page and "<img" not in page
    assert "&lt;script&gt;alert(1)" in page
    missing = envfarm("compare", str(before), str(after), "--task", "orders/x", code=2)
    assert "neither campaign" in missing["message"]


def test_a_report_without_full_coverage_has_bounds_and_no_headline(envfarm, before, tmp_path):
    path = before / "attempts.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-3]))
    answer = envfarm("report", str(before), "-k", "8")
    assert answer["summary"]["results"] is None
    assert answer["summary"]["coverage"]["complete"] is False
    assert "No headline" in (before / "report" / "report.md").read_text()


def test_a_biased_suite_is_said_in_the_headline(envfarm, before, tmp_path):
    envfarm("select", str(before), "--only-rows", "--out", "selection", "--validation", "0")
    train = json.loads((tmp_path / "selection" / "train.json").read_text())
    kept = [
        line
        for line in (before / "attempts.jsonl").read_text().splitlines()
        if json.loads(line)["task_id"] in train["tasks"]
    ]
    path = tmp_path / "biased" / "attempts.jsonl"
    path.parent.mkdir()
    path.write_text("".join(f"{line}\n" for line in kept))
    answer = envfarm("report", str(path), "--suite", "selection/train.json")
    assert answer["summary"]["suite"]["biased"] is True
    text = (tmp_path / "biased" / "report" / "report.md").read_text()
    assert text.index("Biased suite") < text.index("## Headline")


def test_selections_and_training_runs_have_reports_too(envfarm, before, tmp_path):
    envfarm("select", str(before), "--only-rows", "--out", "selection")
    envfarm("report", "selection")
    assert "Rejected tasks" in (tmp_path / "selection" / "report" / "report.md").read_text()
    learner = tmp_path / "learner"
    learner.mkdir()
    steps = [
        {"update": i, "version": i - 1, "reward_mean": i / 10, "mismatch_gap": 0.01, "loss": -0.1}
        for i in range(1, 6)
    ]
    (learner / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    envfarm("report", "learner")
    assert "Mismatch of engine" in (learner / "report" / "report.md").read_text()


def test_age_reads_a_selection_and_the_rows_of_training(envfarm, before, after):
    envfarm("select", str(before), "--only-rows", "--out", "selection")
    answer = envfarm("select", "--age", "selection", str(after))
    assert answer["mean_change"] > 0.05
    assert 0 < answer["left_band"] <= len(answer["tasks"])


def test_a_suite_says_when_its_tasks_are_no_longer_as_frozen(envfarm, tmp_path):
    frozen = envfarm("suite", "freeze", "all", "--domains", str(DOMAINS), "--domain", "orders")
    assert envfarm("suite", "show", frozen["file"], "--domains", str(DOMAINS))["ok"]
    again = envfarm(
        "suite", "freeze", "all", "--domains", str(DOMAINS), "--domain", "orders", "--tag",
        "split=eval", code=2,
    )  # fmt: skip
    assert "another suite" in again["message"]
    rows = write_rows(tmp_path / "other" / "attempts.jsonl", rows_of({"orders/a": (1, 2)}))
    assert not envfarm("report", str(rows), "--suite", frozen["file"])["summary"]["results"]


def test_the_bench_reports_its_keys_beside_their_limits(envfarm, tmp_path):
    answer = envfarm("bench", "select", "--tasks", "200", "--runs", "8", "--scratch", str(tmp_path))
    assert set(answer["limits"]) <= set(answer)
    assert answer["probe_fraction_of_fixed_k"] <= 0.6
    assert set(answer["probing"]) == {"uniform", "u_shaped", "spiked"}
    assert answer["select_seconds"] > 0 and answer["select_peak_mb"] > 0


def learner_folder(path: Path) -> Path:
    path.mkdir(parents=True)
    steps = [
        {"update": i, "version": i - 1, "reward_mean": i / 10, "seconds": {"wait": 9, "step": 90}}
        for i in range(1, 6)
    ]
    (path / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    return path


def test_several_campaigns_make_one_report(envfarm, before, after, tmp_path):
    (tmp_path / "prices.toml").write_text(PRICES + "training = 12.0\n")
    learner_folder(tmp_path / "train" / "learner")
    answer = envfarm(
        *("report", str(before), "train", str(after), "--prices", "prices.toml"),
        *("--probe", str(before), "--out", "all"),
    )
    summary = answer["summary"]
    assert [one["name"] for one in summary["campaigns"]] == ["before", "after"]
    alone = envfarm("compare", str(before), str(after))
    assert summary["before_after"]["paired"] == alone["paired"]
    assert summary["training"][0]["busy_seconds"] == 5 * 90
    costs = {one["what"]: one["cost"] for one in summary["other_costs"]}
    assert costs["training machine, train"] == pytest.approx(5 * 90 / 3600 * 12)
    spent = summary["campaigns"][0]["cost"]["all"]["cost"]
    assert costs["probing before"] == pytest.approx(spent)
    text = (tmp_path / "all" / "report.md").read_text()
    for words in (
        "Every task, before and after",
        "Repeatability",
        "Cost against",
        "Training train",
    ):
        assert words in text


def test_campaigns_of_other_interfaces_are_reported_beside_each_other(envfarm, before, after):
    path = after / "attempts.jsonl"
    path.write_text(path.read_text().replace('"interface": "tokens"', '"interface": "chat"'))
    refused = envfarm("compare", str(before), str(after), code=2)
    assert "different interfaces" in refused["message"]
    assert envfarm("compare", str(before), str(after), "--force")["warnings"]
    answer = envfarm("report", str(before), str(after), "--out", "both")
    assert answer["summary"]["before_after"] is None
    assert "different interfaces" in answer["summary"]["not_paired"]


def test_campaigns_that_make_no_report_together_are_one_line(envfarm, before, after, tmp_path):
    envfarm("select", str(before), "--only-rows", "--out", "selection")
    for arguments, words in (
        ((str(before), str(after)), "needs --out"),
        ((str(before), str(before), "--out", "x"), "named twice"),
        ((str(before), "selection", "--out", "x"), "is a selection"),
        ((str(before), "nowhere", "--out", "x"), "there is no nowhere"),
        ((str(before), "--probe", str(after)), "several campaigns"),
    ):
        assert words in envfarm("report", *arguments, code=2)["message"]
    five = [str(sample_campaign(tmp_path / f"c{i}", gain=0, policy="p", tasks=2)) for i in range(5)]
    assert "cannot be told apart" in envfarm("report", *five, "--out", "x", code=2)["message"]


def test_an_evaluation_on_the_way_is_reported_with_the_k_it_is_for(envfarm, before):
    (before / "recipe.json").write_text(json.dumps({"id": "x", "recipe": {"k": 20}}))
    summary = envfarm("report", str(before))["summary"]
    assert (summary["coverage"]["repetitions"], summary["results"]) == (20, None)
    (before / "recipe.json").write_text("{")
    assert "recipe.json is damaged" in envfarm("report", str(before), code=2)["message"]


HOSTILE = {
    "empty": b"",
    "half a line": b'{"task_id": "orders/a"',
    "no json": b"hello\n",
    "binary": bytes(range(256)) + b"\n",
    "other bytes": b"\xff\xfe\n",
    "a list": b"[1, 2]\n",
    "deep": b"[" * 100_000 + b"\n",
    "blank lines": b"\n\n",
}


@pytest.mark.parametrize("kind", list(HOSTILE))
def test_a_hostile_file_is_one_line_in_every_command(envfarm, before, tmp_path, kind):
    path = tmp_path / "hostile" / "attempts.jsonl"
    path.parent.mkdir()
    path.write_bytes(HOSTILE[kind])
    for arguments in (
        ("select", str(path), "--only-rows"),
        ("report", str(path)),
        ("compare", str(before), str(path)),
        ("compare", str(path), str(before), "--task", "orders/a"),
    ):
        said = envfarm(*arguments, code=2)["message"]
        assert str(path) in said and "\n" not in said


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"seconds": ', '"seconds": NaN, "x": ', ""),
        ('"reward": 1.0', '"reward": Infinity', ""),
        ('"reward": 1.0', '"reward": 2', "attempts pass (1) or do not (0)"),
        ('"reward": 1.0', '"reward": true', "reward cannot be True"),
        ('"repetition": 0', '"repetition": -1', "repetition cannot be -1"),
        ('"repetition": 0', '"repetition": 1e300', "repetition cannot be"),
        ('"checks": [', '"checks": [7, ', "checks"),
        ('"writes": {"refunds": {"insert": 1}}', '"writes": {"refunds": 3}', "writes"),
        ('"tags": {', '"tags": {"workflow": 5, "y": {}, ', "tags"),
        ('"checks": [', '"checks": [' + "[" * 50_000, ""),
    ],
)
def test_a_hostile_value_is_one_line_with_its_place(envfarm, tmp_path, old, new, words):
    path = write_rows(tmp_path / "x" / "attempts.jsonl", rows_of({"orders/a": (2, 2)}))
    lines = path.read_text().splitlines()
    assert old in lines[0]
    path.write_text(f"{lines[1]}\n{lines[0].replace(old, new)}\n")
    said = envfarm("report", str(path), code=2)["message"]
    assert said.startswith(f"{path}:2: ") and words in said and "\n" not in said


def test_a_planned_k_far_above_the_rows_has_bounds_and_no_headline(envfarm, before):
    answer = envfarm("report", str(before), "-k", "1000")
    assert answer["summary"]["results"] is None
    assert answer["summary"]["coverage"]["covered"] == 48 * 8


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_nobody_may_write_is_one_line(envfarm, before, tmp_path):
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o500)
    assert "shut" in envfarm("report", str(before), "--out", str(shut / "x"), code=1)["message"]


def test_a_place_that_cannot_be_a_folder_is_one_line(envfarm, before, after, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("a file")
    for arguments in (
        ("report", str(before), "--out", "taken"),
        ("compare", str(before), str(after), "--out", "taken/below"),
        ("select", str(before), "--only-rows", "--out", "taken"),
    ):
        said = envfarm(*arguments, code=1)["message"]
        assert "taken" in said and "\n" not in said
