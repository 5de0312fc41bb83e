"""A person as the agent, a look into a world, and agents without a mind; at a terminal and from a pipe."""

import subprocess
import sys

import pytest

from envfarm_cli.main import main
from tests.support.envfarm_command import ROOT, Answer, Envfarm
from tests.support.terminal import terminal

RIGHT = (
    ("find_member email=ada.berg@example.org", "Ada Berg"),
    ("get_loan L-11", "'L-11' is no name=value"),
    ("get_loan loan_id=L-99", "There is no loan L-99."),
    ("conjure up=1", "there is no tool or command 'conjure'"),
    ('write_note loan_id=L-11 body="One', "No closing quotation"),
    ("extend_loan loan_id=L-11 days=soon", "days=soon: a value of type integer is expected"),
    # Typed wrong, taken back with two backspaces, and typed on.
    ("extend_loan loan_id=L-12\x7f\x7f11 days=7", "2026-03-13"),
    ('write_note loan_id=L-11 kind=extended body="One more week, in time."', "note_id"),
    ("limits", "4 of 12 tool calls"),
    # The line before, by the arrow up.
    ("\x1b[A", "4 of 12 tool calls"),
    ("", ""),
)
"""What a person types, and what they see of it."""
FORGETFUL = """\
extend_loan loan_id=L-11 days=7
say Shall I extend it?
say It is extended until 13 March.
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Envfarm:
    root = tmp_path_factory.mktemp("desk")
    assert main(["tasks", "new", "desk/one", "--domains", str(root / "domains")]) == 0
    return Envfarm(root / "state", root / "domains")


def piped(farm: Envfarm, lines: str, *words: str) -> Answer:
    argv = [sys.executable, "-m", "envfarm_cli", *words, "--domains", str(farm.domains)]
    argv += ["--state-dir", str(farm.state)]
    done = subprocess.run(argv, cwd=ROOT, input=lines, capture_output=True, text=True, timeout=280)
    assert "Traceback" not in done.stderr, done.stderr
    return Answer(done.returncode, done.stdout, done.stderr)


def test_a_person_at_a_terminal_earns_the_reward_and_slips_are_told(desk: Envfarm):
    place = ("--domains", str(desk.domains), "--state-dir", str(desk.state))
    with terminal("tasks", "play", "desk/one", *place) as person:
        greeting = person.until("agent> ")
        assert "extend_loan" in greeting and "`help` says what you can write" in greeting
        for line, said in RIGHT:
            person.type(f"{line}\r")
            assert said in person.until("agent> ")
        person.type("done You may keep the hammer drill (L-11) until 13 March.\r")
        code, verdict = person.end()
    assert code == 0, verdict
    assert "reward 1" in verdict
    assert "--whole" not in verdict
    assert not list(desk.state.glob("play-*"))


@pytest.mark.prove
def test_a_forgetful_run_earns_nothing_and_the_person_leaves(desk: Envfarm):
    answer = piped(desk, FORGETFUL, "tasks", "play", "desk/one", "--json")
    assert (answer.code, answer.json["reward"], answer.json["outcome"]) == (1, 0.0, "user_left")
    assert (answer.json["tool_calls"], answer.json["turns"]) == (1, 3)
    failed = [check["name"] for check in answer.json["verdict"]["checks"] if not check["passed"]]
    assert failed == ["final state"]


def test_a_shell_takes_sql_and_mcp_calls_and_shows_what_changed(desk: Envfarm):
    lines = """\
\\d loans
SELECT loan_id, due_on
  FROM loans WHERE loan_id = 'L-11';
\\call extend_loan loan_id=L-11 days=7
\\diff
\\agent
DELETE FROM pg_class;
\\fresh
\\diff
"""
    answer = piped(desk, lines, "world", "shell", "desk")
    told = " ".join(answer.out.split())
    assert answer.code == 1, answer.err
    assert "2026-03-06" in told
    assert '"method": "tools/call"' in told
    assert '+ loans {"loan_id":"L-11"' in told and '"due_on":"2026-03-13"' in told
    assert "permission denied" in told
    assert "nothing has changed" in told
    assert not list(desk.state.glob("postgres-*"))


@pytest.mark.prove
def test_agents_without_a_mind_fail_where_the_oracle_succeeds(desk: Envfarm):
    answer = desk.run("tasks", "baselines", "--json", "--domains", str(desk.domains))
    assert answer.code == 0, answer.err
    passed = {pool["agent"]: pool["passed"] for pool in answer.json["pools"]}
    assert passed == {"oracle": 1, "lazy": 0, "hasty": 0, "random": 0}
