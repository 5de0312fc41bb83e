"""Who is alive, told apart from whoever got the same number later."""

import os
import signal
import subprocess
import sys
import time

import pytest

from envfarm_cli.process_table import Identity, end_group, group_members, identify, is_alive

STUBBORN = (
    "import signal, subprocess, sys, time;"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "child = subprocess.Popen(['sleep', '600']);"
    "print(child.pid, flush=True); time.sleep(600)"
)


@pytest.fixture
def group():
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout
    member = int(process.stdout.readline())
    leader = identify(process.pid)
    assert leader is not None
    yield process, leader, member
    for pid in (member, process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()
    process.stdout.close()


def until(true, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_we_are_alive_and_a_different_start_is_somebody_else():
    me = identify(os.getpid())
    assert me is not None
    assert is_alive(me)
    assert not is_alive(Identity(me.pid, me.start + 1))


def test_a_zombie_is_not_alive():
    process = subprocess.Popen(["true"])
    until(lambda: identify(process.pid) is None)
    process.wait()


def test_a_group_has_its_leader_and_its_members(group):
    process, leader, member = group
    assert sorted(group_members(leader)) == sorted([process.pid, member])


def test_ending_a_group_kills_what_ignores_the_request(group):
    process, leader, member = group
    assert end_group(leader, grace_seconds=0.2) == 2
    assert process.wait(5) == -signal.SIGKILL
    assert identify(member) is None


def test_members_whose_leader_died_are_still_found(group):
    process, leader, member = group
    process.kill()
    process.wait()
    assert group_members(leader) == [member]


def test_a_reused_number_is_left_alone(group):
    process, leader, _ = group
    before_us = Identity(leader.pid, leader.start - 1)
    assert group_members(before_us) == []
    assert end_group(before_us, grace_seconds=0) == 0
    assert process.poll() is None
