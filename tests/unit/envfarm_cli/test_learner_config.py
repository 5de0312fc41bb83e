"""The learner's configuration: the recipe's file, with our addresses on top."""

import stat
import tomllib

import pytest

from envfarm_cli.failure import BadInput
from envfarm_cli.learner_config import write_config

BASE = 'seed = 42\n[run]\nid = "tiny"\nupdates = 30\n[optimizer]\nbetas = [0.9, 0.999]\nlr = 3e-4\n'


def test_overrides_win_and_the_rest_stays(tmp_path):
    base, made = tmp_path / "base.toml", tmp_path / "made.toml"
    base.write_text(BASE)
    write_config(made, base, {"run": {"id": 'a "b"'}, "stream": {"redis_url": "redis://x"}})
    assert tomllib.loads(made.read_text()) == {
        "seed": 42,
        "run": {"id": 'a "b"', "updates": 30},
        "optimizer": {"betas": [0.9, 0.999], "lr": 3e-4},
        "stream": {"redis_url": "redis://x"},
    }
    assert stat.S_IMODE(made.stat().st_mode) == 0o600


def test_a_relative_run_folder_is_where_the_user_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base, made = tmp_path / "base.toml", tmp_path / "made.toml"
    base.write_text('[run]\ndir = "runs/x"\n')
    write_config(made, base, {})
    assert tomllib.loads(made.read_text())["run"]["dir"] == str(tmp_path / "runs/x")


def test_a_file_that_is_no_toml_is_named(tmp_path):
    base = tmp_path / "base.toml"
    base.write_text("[run\n")
    with pytest.raises(BadInput, match=r"base\.toml"):
        write_config(tmp_path / "made.toml", base, {})
