"""Every task of the hotels is proved, with its rubrics, by a judge that answers both ways."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.envfarm_command import ROOT, Envfarm
from tests.support.judge_server import judge_server, quoted_text
from tests.support.proof import write_proof

pytestmark = pytest.mark.prove
LEAST_MUTANTS = 12
"""Of a task, on average."""


def test_every_task_of_the_hotels_is_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hotel = tmp_path / "domains/hotel"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "domains/hotel", hotel, ignore=ignored)
    subprocess.run([sys.executable, hotel / "families.py", "--judged"], check=True)
    private = [yaml.safe_load(path.read_text()) for path in (hotel / "private").iterdir()]
    judged = [p for p in private if any(check["kind"] == "rubric" for check in p["checks"])]
    assert 0.05 <= len(judged) / len(private) <= 0.08
    right = {p["golden"]["reply"] for p in judged}

    def answer(messages: list[dict[str, str]]) -> str:
        word = "yes" if quoted_text(messages) in right else "no"
        return f'{{"answer": "{word}"}}'

    with judge_server(answer) as judge:
        monkeypatch.setitem(os.environ, "GRADER_JUDGE_URL", judge.url)
        monkeypatch.setitem(os.environ, "GRADER_JUDGE_MODEL", "answers-both-ways")
        found = Envfarm(tmp_path / "state").run(
            *("tasks", "validate", "--domain", "hotel", "--json"),
            *("--domains", str(tmp_path / "domains")),
            seconds=3600,
        )
        said = {quoted_text(body["messages"]) in right for body in judge.asked}
    assert found.code == 0, found.out or found.err
    proved = found.json
    assert (proved["passed"], proved["failures"]) == (len(private), [])
    assert proved["mutants"] >= LEAST_MUTANTS * len(private)
    assert proved["equivalent_declared"] == 0
    assert said == {True, False}
    figures = ("tasks", "passed", "mutants", "mutants_killed", "by_kind", "episodes", "seconds")
    write_proof("hotel-tasks", {name: proved[name] for name in figures} | {"judged": len(judged)})
