"""Every command teaches: what it does, an example, exit codes, and --json."""

import subprocess
import sys

import pytest

from envfarm_cli.main import main

COMMANDS = [
    "up",
    "down",
    "status",
    "doctor",
    "demo",
    "tasks list",
    "tasks show",
    "tasks validate",
    "tasks lint",
    "tasks stats",
    "tasks similar",
    "tasks new",
    "tasks schema",
    "tasks play",
    "tasks baselines",
    "episode show",
    "world check",
    "world shell",
    "jobs list",
    "jobs show",
    "jobs submit",
    "jobs watch",
    "jobs cancel",
    "jobs resume",
    "jobs replay",
    "probe",
    "eval",
    "sft",
    "plan",
    "train",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_an_example_exit_codes_and_json(command, capsys):
    assert main([*command.split(), "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"Example: envfarm {command}" in said
    assert "Exit codes: 0 done" in said
    assert "--json" in said


def test_help_of_the_whole_names_every_command(capsys):
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    for command in {command.split()[0] for command in COMMANDS}:
        assert f" {command} " in said


def test_a_command_waits_for_no_other_commands_modules():
    code = (
        "import sys; from envfarm_cli.main import main; main(['status', '--help']); "
        "sys.exit(','.join({'scipy', 'polars', 'fastapi'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
