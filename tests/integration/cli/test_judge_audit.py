"""`envfarm judge audit` as a user runs it."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from envfarm_cli.main import main
from tests.support.judge_server import judge_server


@dataclass(frozen=True)
class Ended:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    def command(*arguments: str) -> Ended:
        code = main(["judge", "audit", *arguments])
        return Ended(code, *capsys.readouterr())

    return command


def test_a_live_audit_prints_its_figures_and_its_record_gives_them_again(run, tmp_path: Path):
    record = str(tmp_path / "recorded.yaml")
    with judge_server(lambda messages: "yes") as server:
        place = ("--url", server.url, "--model", "always-yes", "--record", record)
        live = run("--live", *place, "--repeat", "2", "--json")
    assert live.returncode == 0, live.stderr
    again = run("--pairs", record, "--json")
    assert again.returncode == 0, again.stderr
    figures = json.loads(live.stdout)
    assert json.loads(again.stdout) == figures
    assert figures["answers"] == 2 * figures["pairs"]
    assert 0 < figures["agreement_low"] < figures["agreement"] < figures["agreement_high"] < 1
    assert (figures["flip_rate"], figures["sway_rate"]) == (0, 0)
    for_people = run("--pairs", record)
    assert "agreement" in for_people.stdout and "flip rate" in for_people.stdout


def test_what_is_missing_is_one_line(run):
    for arguments, said in (
        ((), "24 of 24 pairs have no recorded answer"),
        (("--live",), "no judge is named"),
        (("--model", "m"), "add --live"),
        (("--live", "--url", "http://127.0.0.1:9/v1", "--model", "m"), "cannot be asked"),
    ):
        ended = run(*arguments)
        assert ended.returncode in (1, 2)
        assert said in ended.stderr and ended.stderr.count("\n") == 1, ended.stderr
