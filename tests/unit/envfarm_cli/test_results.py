"""With --json stdout holds results and nothing else, whoever prints."""

import json

import pytest

from envfarm_cli import commands
from envfarm_cli.failure import BadInput
from envfarm_cli.main import main
from envfarm_cli.output import Output


def chatty(_: list[str]) -> int:
    print("a library has something to say")
    Output(True).result({"ok": True})
    return 0


def test_what_a_library_prints_goes_to_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(commands, "run", chatty)
    assert main(["bench", "--json"]) == 0
    seen = capsys.readouterr()
    assert json.loads(seen.out) == {"ok": True}
    assert "a library" in seen.err


def test_the_error_of_a_chatty_command_is_the_only_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fails(_: list[str]) -> int:
        print("noise")
        raise BadInput("no", hint="yes")

    monkeypatch.setattr(commands, "run", fails)
    assert main(["bench", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["message"] == "no"
    print("afterwards stdout is stdout again")
    assert "afterwards" in capsys.readouterr().out


def test_without_json_nothing_is_moved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(commands, "run", chatty)
    assert main(["bench"]) == 0
    assert "a library" in capsys.readouterr().out
