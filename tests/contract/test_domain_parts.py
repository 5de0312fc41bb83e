"""A domain's three parts: each task has one of each, and no part holds another's secrets."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

DOMAINS = Path(__file__).parents[2] / "domains"
NAMES = sorted(path.parent.name for path in DOMAINS.glob("*/world"))
PARTS = {"world": "world/tasks", "user": "user", "private": "private"}
WRITES_THE_PARTS = {"families.py", "company.py", "words.yaml", "cases"}
"""On the author's side: the scripts and the words that a domain's files are written from."""
WITH_FAMILIES = [name for name in NAMES if (DOMAINS / name / "families.py").exists()]
WORLD_FILES = {"world.yaml", "schema.sql", "seed.sql", "policy.md", "tools.py", "tasks"}


def slugs(domain: str, part: str) -> set[str]:
    return {path.stem for path in (DOMAINS / domain / PARTS[part]).iterdir()}


def texts(domain: str, part: str) -> dict[Path, str]:
    return {
        path: " ".join(path.read_text().split())
        for path in (DOMAINS / domain / part).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def read(path: Path) -> dict:
    return yaml.load(path.read_text(), yaml.CSafeLoader)


def test_there_is_a_domain():
    assert "orders" in NAMES


@pytest.mark.parametrize("domain", NAMES)
def test_a_domain_has_its_three_parts_and_nothing_else(domain: str):
    names = {path.name for path in (DOMAINS / domain).iterdir()} - {"__pycache__"}
    assert names - WRITES_THE_PARTS == set(PARTS)
    world = {path.name for path in (DOMAINS / domain / "world").iterdir()} - {"__pycache__"}
    assert world == WORLD_FILES


@pytest.mark.parametrize("domain", NAMES)
def test_each_task_has_exactly_one_file_in_each_part(domain: str):
    assert slugs(domain, "world") == slugs(domain, "user") == slugs(domain, "private")
    for slug in slugs(domain, "world"):
        root = DOMAINS / domain
        task_id = f"{domain}/{slug}"
        assert read(root / "world/tasks" / f"{slug}.yaml")["id"] == task_id
        assert read(root / "user" / f"{slug}.yaml")["task"] == task_id
        assert read(root / "private" / f"{slug}.yaml")["task"] == task_id


@pytest.mark.parametrize("domain", NAMES)
def test_world_and_user_hold_no_check_and_no_golden_text(domain: str):
    words = ("golden", "near_misses", "extra_write", "contains_all", "contains_none", "unstable")
    secrets: set[str] = set()
    for path in (DOMAINS / domain / "private").iterdir():
        private = read(path)
        secrets.add(" ".join(private["golden"]["reply"].split()))
        secrets |= {check["name"] for check in private["checks"] if len(check["name"]) > 20}
        secrets |= {miss["name"] for miss in private.get("near_misses", [])}
        secrets |= {" ".join(c["query"].split()) for c in private["checks"] if "query" in c}
    for part in ("world", "user"):
        for path, text in texts(domain, part).items():
            found = [secret for secret in (*words, *secrets) if secret.lower() in text.lower()]
            assert found == [], path


@pytest.mark.parametrize("domain", NAMES)
def test_the_world_holds_no_user_context(domain: str):
    contexts = {
        " ".join(read(path)["context"].split()) for path in (DOMAINS / domain / "user").iterdir()
    }
    for path, text in texts(domain, "world").items():
        assert not [context for context in contexts if context in text], path


@pytest.mark.parametrize("domain", WITH_FAMILIES)
def test_a_domain_with_families_is_what_they_write(domain: str):
    script = DOMAINS / domain / "families.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_more_training_tasks_of_the_counter_change_no_other_task(tmp_path: Path):
    for name in ("families.py", "words.yaml"):
        shutil.copy(DOMAINS / "counter" / name, tmp_path / name)
    subprocess.run([sys.executable, tmp_path / "families.py", "--train-tasks", "7"], check=True)
    assert len(list((tmp_path / "private").iterdir())) == len(slugs("counter", "private")) + 14
    for part in PARTS.values():
        for path in (DOMAINS / "counter" / part).iterdir():
            assert (tmp_path / part / path.name).read_text() == path.read_text()


def test_the_counter_trains_and_evaluates_every_workflow_on_records_of_its_own():
    public = [read(path) for path in (DOMAINS / "counter/world/tasks").iterdir()]
    by_split: dict[str, list[dict]] = {"train": [], "eval": []}
    for task in public:
        by_split[task["tags"]["split"]].append(task)
    assert len(by_split["train"]) >= 48
    assert len(by_split["eval"]) >= 56
    workflows = {
        split: {task["tags"]["workflow"] for task in tasks} for split, tasks in by_split.items()
    }
    assert len(workflows["train"]) >= 8
    assert workflows["train"] == workflows["eval"]
    jobs: dict[str, set[str]] = {}
    for split, tasks in by_split.items():
        slugs_of = [task["id"].split("/")[1] for task in tasks]
        golden = [read(DOMAINS / f"counter/private/{slug}.yaml")["golden"] for slug in slugs_of]
        jobs[split] = {run["actions"][0]["arguments"]["job"] for run in golden}
        assert len(jobs[split]) == len(tasks)
    assert jobs["train"] & jobs["eval"] == set()


def test_orders_has_both_splits_six_workflows_and_tasks_in_which_restraint_is_right():
    tasks = [read(path) for path in (DOMAINS / "orders/world/tasks").iterdir()]
    tags = [task["tags"] for task in tasks]
    assert len(tasks) >= 12
    assert {tag["split"] for tag in tags} == {"train", "eval"}
    assert len({tag["workflow"] for tag in tags}) >= 6
    golden = [read(path)["golden"] for path in (DOMAINS / "orders/private").iterdir()]
    writes = ("cancel_order", "issue_refund", "change_address", "open_ticket", "request_approval")
    idle = [g for g in golden if not any(a["tool"] in writes for a in g["actions"])]
    assert len(idle) >= 2
