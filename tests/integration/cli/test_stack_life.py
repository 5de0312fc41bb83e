"""The stack as `envfarm` starts and stops it: nothing is ever left running.

Runs without vLLM (`--engine scripted`). One state folder is shared, so that the tiny model and the
proofs are made once; every test stops what it starts.
"""

import os
import signal
import socket
import stat
from pathlib import Path

import pytest

from tests.support.envfarm_command import Envfarm, descendants, none_alive, until

NAMES = ["valkey", "env-server", "grader", "policy", "gateway"]


@pytest.fixture
def farm(warm: Envfarm):
    yield warm
    warm.run("down")


def places(farm: Envfarm) -> tuple[str, ...]:
    return ("--state-dir", str(farm.state), "--domains", str(farm.domains))


def pid_of(shown: dict, name: str) -> int:
    return next(p["pid"] for p in shown["processes"] if p["name"] == name)


def test_up_shows_addresses_and_down_leaves_no_process_behind(farm: Envfarm):
    shown = farm.up()
    assert shown["phase"] == "ready"
    assert [process["name"] for process in shown["processes"]] == NAMES
    assert {process["state"] for process in shown["processes"]} == {"running"}
    family = descendants(shown["supervisor"])
    assert len(family) > len(NAMES)
    status = farm.run("status", "--json")
    assert (status.code, status.json["phase"]) == (0, "ready")
    down = farm.run("down", "--json")
    assert down.code == 0
    assert down.json["stopped"] == NAMES
    assert none_alive(family)
    assert farm.state_json() is None
    assert farm.run("status").code == 3


def test_a_running_stack_has_groups_of_its_own_private_secrets_and_is_started_once(farm: Envfarm):
    shown = farm.up()
    groups = {os.getpgid(process["pid"]) for process in shown["processes"]}
    assert groups == {process["pid"] for process in shown["processes"]}
    for name in ("secrets.json", "redis.json", "script.json"):
        assert stat.S_IMODE((farm.state / name).stat().st_mode) == 0o600
    again = farm.up()
    assert again["already_running"] is True
    assert again["processes"] == shown["processes"]


def test_down_without_a_stack_is_fine(farm: Envfarm):
    answer = farm.run("down", "--json")
    assert (answer.code, answer.json["stopped"], answer.json["swept"]) == (0, [], [])


@pytest.mark.parametrize("next_command", ["down", "up"])
def test_what_a_killed_supervisor_left_is_swept(farm: Envfarm, next_command: str):
    shown = farm.up()
    family = descendants(shown["supervisor"])
    # A stopped process does not hear that its parent died.
    os.kill(pid_of(shown, "grader"), signal.SIGSTOP)
    os.kill(shown["supervisor"], signal.SIGKILL)
    assert until(lambda: len(left_over(farm)) == 1)
    status = farm.run("status")
    assert status.code == 3
    assert "grader" in status.err and "`envfarm down` sweeps" in status.err
    if next_command == "down":
        assert farm.run("down", "--json").json["swept"] == ["grader"]
    else:
        assert farm.up()["phase"] == "ready"
    assert none_alive(family)


def left_over(farm: Envfarm) -> list:
    from envfarm_cli.state_dir import StateDir

    state = StateDir(farm.state).read()
    assert state is not None
    return state.left_over()


@pytest.mark.parametrize("moment", ["Valkey", "env-server", "gateway"])
def test_ctrl_c_while_it_starts_leaves_nothing(farm: Envfarm, moment: str):
    process = farm.start("up", "--engine", "scripted", *places(farm))
    assert until(lambda: (farm.state_json() or {}).get("doing") == moment)
    state = farm.state_json()
    assert state is not None
    family = descendants(state["supervisor"]["pid"])
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert none_alive(family)
    assert farm.state_json() is None


def test_ctrl_c_in_the_demo_ends_vllm_and_everything_else(farm: Envfarm, tmp_path):
    arguments = ("demo", "--scripted", *places(farm), "--runs", str(tmp_path))
    process = farm.start(*arguments)
    assert until(lambda: "proofs" in (farm.state_json() or {}).get("doing", ""))
    state = farm.state_json()
    assert state is not None
    assert "engine" in {child["name"] for child in state["processes"]}
    family = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert none_alive(family)
    assert farm.state_json() is None


def test_ctrl_c_while_the_command_loads_is_one_line(tmp_path):
    process = Envfarm(tmp_path).start("demo", "--state-dir", str(tmp_path / "state"))
    # The first module of ours is loaded; a second of imports follows.
    assert until(lambda: catches_sigint(process.pid), 10)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.split("\n")[1:] == ["stopped by SIGINT; nothing of it is left running", ""]
    assert not (tmp_path / "state").exists()


def catches_sigint(pid: int) -> bool:
    """Whether it has taken over SIGTERM as well, which Python itself leaves alone."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def test_a_disk_that_fills_up_ends_neither_the_stack_nor_its_stop(farm: Envfarm):
    shown = farm.up()
    family = descendants(shown["supervisor"])
    # A folder in the way of the temporary file fails a write as a full disk does, for root, too.
    blocker = farm.state / f"state.json.{shown['supervisor']}.tmp"
    blocker.mkdir()
    try:
        os.kill(pid_of(shown, "policy"), signal.SIGKILL)
        assert until(lambda: farm.run("status").code == 1)
        states = {p["name"]: p["state"] for p in farm.run("status", "--json").json["processes"]}
        assert states == dict.fromkeys(NAMES, "running") | {"policy": "ended"}
        blocker.rmdir()
        assert until(lambda: (farm.state_json() or {}).get("phase") == "degraded")
        blocker.mkdir()
        down = farm.run("down", "--json")
        assert (down.code, down.json["stopped"], down.json["swept"]) == (0, NAMES, [])
        assert none_alive(family)
    finally:
        if blocker.exists():
            blocker.rmdir()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_stack_in_the_foreground_ends_with_its_signal(farm: Envfarm, number: signal.Signals):
    arguments = ("up", "--engine", "scripted", "--foreground", *places(farm))
    process = farm.start(*arguments)
    assert until(lambda: (farm.state_json() or {}).get("phase") == "ready")
    family = descendants(process.pid)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert f"stopped by {number.name}" in err
    assert none_alive(family)


def test_a_process_that_dies_is_reported_and_not_restarted(farm: Envfarm):
    shown = farm.up()
    os.kill(pid_of(shown, "grader"), signal.SIGKILL)
    assert until(lambda: (farm.state_json() or {}).get("phase") == "degraded")
    status = farm.run("status", "--json")
    assert status.code == 1
    assert "grader ended while serving: killed by SIGKILL" in status.json["message"]
    dead = [p["name"] for p in status.json["processes"] if p["state"] == "ended"]
    assert dead == ["grader"]


@pytest.mark.parametrize("name", ["valkey", "env-server.grpc", "gateway.http"])
def test_a_taken_port_is_one_line_and_nothing_starts(farm: Envfarm, name: str):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        answer = farm.run("up", "--engine", "scripted", "--port", f"{name}={port}")
    assert answer.code == 2
    assert answer.err.startswith(f"error: {name} cannot listen on 127.0.0.1:{port}")
    assert answer.err.count("\n") == 1
    assert farm.state_json() is None


def test_a_fixed_port_is_used_and_a_wrong_token_there_is_one_line(farm: Envfarm):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    gateway = farm.up("--port", f"gateway.http={port}")["processes"][-1]["http"]
    assert gateway == f"http://127.0.0.1:{port}"
    answer = farm.run("episode", "show", "x", "--gateway", gateway, "--token", "wrong")
    assert answer.code == 2
    assert "the bearer token is not known here" in answer.err
    assert answer.err.count("\n") == 1
