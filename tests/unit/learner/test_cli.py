"""The command line: one line for what is wrong, results on stdout."""

import errno
from pathlib import Path

import pytest
from envfarm.errors import ConfigError

from learner.__main__ import main
from learner.config import load
from learner.settings import TOKEN_VARIABLE, Launched, gateway_token, launched

TINY = str(Path(__file__).parents[3] / "learner/configs/tiny-cpu.toml")


def test_check_prints_the_recipes_hash(capsys: pytest.CaptureFixture[str]):
    assert main(["check", "--config", TINY]) == 0
    first, *sections = capsys.readouterr().out.splitlines()
    assert first == f"recipe {load(Path(TINY), []).recipe_hash()}"
    assert any("sampling: temperature=1.0" in section for section in sections)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "--config", "/no/such.toml"], "/no/such.toml"),
        (["check", "--config", TINY, "--set", "algorithm.kll=1"], "algorithm.kll: Extra inputs"),
    ],
)
def test_a_wrong_configuration_is_one_line(arguments, words, capsys: pytest.CaptureFixture[str]):
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ConfigError: ")
    assert captured.err.count("\n") == 1
    assert words in captured.err


def test_a_full_disk_is_one_line_that_says_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/runs/a/checkpoints")

    monkeypatch.setattr("learner.config.load", full)
    assert main(["check", "--config", TINY]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: /runs/a/checkpoints: No space left on device — free some room")
    assert said.count("\n") == 1


def test_a_file_that_cannot_be_written_is_one_line_that_says_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/runs/a/steps.jsonl")

    monkeypatch.setattr("learner.config.load", refused)
    assert main(["check", "--config", TINY]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: /runs/a/steps.jsonl: Permission denied — mend that and start")
    assert said.count("\n") == 1


def test_the_token_comes_from_the_file_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(TOKEN_VARIABLE, "from-environment")
    (tmp_path / "token").write_text("from-file\n")
    assert gateway_token(tmp_path / "token") == "from-file"
    assert gateway_token(None) == "from-environment"


def test_no_token_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match="no token for the gateway"):
        gateway_token(None)
    with pytest.raises(ConfigError, match="cannot read"):
        gateway_token(tmp_path / "absent")


def test_a_launcher_is_told_by_its_variables(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert launched() is None
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert launched() == Launched(1, 2)
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(ConfigError, match="WORLD_SIZE is set"):
        launched()
