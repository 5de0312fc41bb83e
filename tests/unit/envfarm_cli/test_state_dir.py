"""The state folder: what a killed supervisor left is found by pid and start time, and swept."""

import os
import stat
import subprocess
from dataclasses import replace

import pytest

from envfarm_cli.failure import BadInput
from envfarm_cli.process_table import Identity, boot_id, identify
from envfarm_cli.state_dir import READY, ProcessRecord, StackState, StateDir, write_atomically


@pytest.fixture
def state(tmp_path) -> StateDir:
    made = StateDir(tmp_path / "state")
    made.make()
    return made


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def of(process: subprocess.Popen) -> Identity:
    found = identify(process.pid)
    assert found is not None
    return found


def written_by(supervisor: Identity, child: Identity) -> StackState:
    return StackState(
        phase=READY,
        supervisor=supervisor,
        boot=boot_id(),
        started_at=0.0,
        engine="scripted",
        processes=[ProcessRecord(name="grader", pid=child.pid, start=child.start, log="x")],
    )


def dead() -> Identity:
    process = subprocess.Popen(["true"])
    process.wait()
    return Identity(process.pid, 1)


def test_a_state_is_read_back_as_it_was_written(state, sleeper):
    now = written_by(of(sleeper), of(sleeper))
    state.write(now)
    assert state.read() == now


def test_left_overs_of_a_dead_supervisor_are_stopped(state, sleeper):
    state.write(written_by(dead(), of(sleeper)))
    assert state.sweep() == ["grader"]
    assert sleeper.wait(5) != 0
    assert state.read() is None


def test_a_living_supervisor_is_left_alone(state, sleeper):
    me = identify(os.getpid())
    assert me is not None
    state.write(written_by(me, of(sleeper)))
    assert state.sweep() == []
    assert sleeper.poll() is None
    assert state.read() is not None


def test_a_process_that_only_has_the_number_is_left_alone(state, sleeper):
    earlier = Identity(sleeper.pid, of(sleeper).start - 1)
    state.write(written_by(dead(), earlier))
    assert state.sweep() == []
    assert sleeper.poll() is None


def test_numbers_of_another_boot_mean_nothing(state, sleeper):
    state.write(replace(written_by(dead(), of(sleeper)), boot="another"))
    assert state.sweep() == []
    assert sleeper.poll() is None
    assert state.read() is None


def test_secrets_are_for_their_owner_and_stay_the_same(state):
    first = state.secrets()
    assert state.secrets() == first
    assert len(set(first.values())) == len(first) == 4
    assert stat.S_IMODE((state.path / "secrets.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"env_infra": 5}', "\ufffd"])
def test_damaged_secrets_are_named_and_not_replaced(state, text):
    file = state.path / "secrets.json"
    file.write_text(text)
    with pytest.raises(BadInput, match=f"{file} is damaged"):
        state.secrets()
    assert file.read_text() == text


def test_a_failed_write_names_the_file_and_leaves_no_half_of_it(state):
    state.state_file.mkdir()
    with pytest.raises(OSError) as caught:
        write_atomically(state.state_file, {})
    assert caught.value.filename == str(state.state_file)
    assert list(state.path.glob("*.tmp")) == []


def test_two_stacks_never_share_a_folder(state):
    held = state.lock()
    try:
        with pytest.raises(BadInput, match="another envfarm uses"):
            state.lock()
    finally:
        os.close(held)
    os.close(state.lock())
