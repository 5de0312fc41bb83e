"""Results in the row format of another harness: what a row says, and when there is none."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from envfarm.attempt_row import AttemptRow
from envfarm.v1 import task_pb2

from envfarm_cli.campaign import served
from envfarm_cli.failure import BadInput
from envfarm_cli.main import main
from envfarm_numbers import benchmarks
from envfarm_numbers.benchmarks import BENCH, Benchmarks, id_hash, size_of
from envfarm_numbers.suite import Suite
from envfarm_numbers.task_facts import TaskFacts

IDS = ("shelf/lend-one", "shelf/look-only")
UIDS = {"shelf.py:test_lend_one": IDS[0], "shelf.py:test_look_only": IDS[1]}


def attempt(task: str, repetition: int, reward: float | None, **more: Any) -> AttemptRow:
    empty: dict[str, Any] = {
        field.name: {"int": 0, "float": 0.5, "str": ""}.get(str(field.type), None)
        for field in dataclasses.fields(AttemptRow)
    }
    told = {
        "task_id": task,
        "task_hash": "a" * 64,
        "repetition": repetition,
        "attempt": 1,
        "reward": reward,
        "status": "completed" if reward is not None else "failed_env",
        "interface": "chat",
        "tags": {},
        "writes": {},
        "checks": [],
        "policy_numbers": [],
        "prompt_tokens": 100,
        "sampled_tokens": 10,
        "seconds": 2.5,
        "tool_seconds": 0.5,
    }
    typed = {
        name: value if value is not None else ""
        for name, value in empty.items()
        if name not in told
    }
    typed |= {
        name: 0 for name in ("user_tokens", "judge_tokens", "turns", "tool_calls", "tool_errors")
    }
    return AttemptRow(**{**typed, **told, **more})


ALL = [
    attempt(IDS[0], 0, 1.0),
    attempt(IDS[0], 1, None),
    attempt(IDS[0], 1, 0.0, attempt=2, status="truncated_turns"),
    attempt(IDS[1], 0, 0.0, checks=[{"upstream": {"result": True, "reward": 0.25}}]),
    attempt(IDS[1], 1, 1.0),
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    facts = [TaskFacts(task_id=task, task_hash="a" * 64) for task in IDS]
    (tmp_path / "run").mkdir()
    (tmp_path / "run/suite.json").write_text(Suite.freeze("bench", facts).to_json())
    (tmp_path / "worlds").mkdir()
    hosted = {uid: {"id": task, "world": "shelf"} for uid, task in UIDS.items()}
    (tmp_path / "worlds/hosted.json").write_text(json.dumps({"hosted": hosted}))
    write(tmp_path, ALL)
    return tmp_path


def write(place: Path, rows: list[AttemptRow]) -> None:
    lines = "".join(row.to_json() + "\n" for row in rows)
    (place / "run/attempts.jsonl").write_text(lines)


def export(place: Path, *more: str) -> int:
    places = (str(place / "run"), "--worlds", str(place / "worlds"))
    return main(
        ["export", "thinkingbox", *places, "--out", str(place / "out.jsonl"), "--json", *more]
    )


def test_a_row_for_each_key_and_nothing_of_attempts_without_reward(
    place: Path, capsys: pytest.CaptureFixture[str]
):
    assert export(place, "-k", "2") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"], said["benchmark"]) == (4, None)
    rows = [json.loads(line) for line in (place / "out.jsonl").read_text().splitlines()]
    assert [(r["uid"], r["metadata"]["repetition"]) for r in rows] == [
        (uid, number) for uid in UIDS for number in (0, 1)
    ]
    results = [(r["test_result"]["result"], r["test_result"]["reward"]) for r in rows]
    # The third is theirs: passed with a quarter, which is 0 of ours.
    assert results == [(True, 1.0), (False, 0.0), (True, 0.25), (True, 1.0)]
    assert [r["finish_reason"] for r in rows] == ["done", "agent_limit", "done", "done"]
    assert not any(r["is_system_error"] or r["test_result"]["is_system_error"] for r in rows)
    first = rows[0]
    assert (first["metadata"]["test_case_file"], first["metadata"]["test_case_name"]) == (
        "shelf.py",
        "test_lend_one",
    )
    assert (first["metadata"]["execution_time"], first["metadata"]["time_tool"]) == (2.5, 0.5)
    (usage,) = first["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (100, 10, 110)
    assert str(place) not in (place / "out.jsonl").read_text()


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (ALL[:2] + ALL[3:], "1 of 4 attempts have no reward"),
        ([*ALL, attempt(IDS[0], 2, 1.0)], "1 were not planned"),
        ([*ALL, attempt(IDS[0], 0, 1.0, attempt=2)], "a repetition counts once"),
        ([*ALL[:4], attempt(IDS[1], 1, 1.0, task_hash="b" * 64)], "1 tasks have other content"),
    ],
)
def test_nothing_is_written_unless_each_key_is_there_once(
    place: Path, capsys: pytest.CaptureFixture[str], rows: list[AttemptRow], why: str
):
    write(place, rows)
    assert export(place, "-k", "2") != 0
    captured = capsys.readouterr()
    assert why in captured.err + captured.out
    assert not (place / "out.jsonl").exists()


def test_a_part_of_the_benchmark_is_no_result_of_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    known = Benchmarks({id_hash(IDS[0]): BENCH}, {"c" * 64: BENCH, "d" * 64: BENCH}, {})
    monkeypatch.setattr(benchmarks, "_known", lambda: known)
    assert export(place, "-k", "2") != 0
    assert not (place / "out.jsonl").exists()
    capsys.readouterr()
    assert export(place, "-k", "2", "--part") == 0
    assert json.loads(capsys.readouterr().out)["benchmark"] is None


def test_the_benchmark_is_evaluated_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch):
    assert size_of(BENCH) == 507
    known = Benchmarks({id_hash(IDS[0]): BENCH, id_hash(IDS[1]): BENCH}, {}, {})
    known.by_content.update({"c" * 64: BENCH, "d" * 64: BENCH})
    monkeypatch.setattr(benchmarks, "_known", lambda: known)
    tasks = {
        task: task_pb2.Task(ref=task_pb2.TaskRef(task_id=task, task_hash="a" * 64))
        for task in (*IDS, "other/task")
    }
    assert served.choose_benchmark(tasks, BENCH) == list(IDS)
    del tasks[IDS[1]]
    with pytest.raises(BadInput, match="1 tasks of thinkingbox-bench-v1 are served, and it has 2"):
        served.choose_benchmark(tasks, BENCH)


def test_a_folder_without_an_index_is_told(place: Path, capsys: pytest.CaptureFixture[str]):
    (place / "worlds/hosted.json").unlink()
    assert export(place, "-k", "2") != 0
    (place / "worlds/hosted.json").write_text("[]")
    assert export(place, "-k", "2") != 0
