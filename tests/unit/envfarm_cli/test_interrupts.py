"""Signals wait while a step must not be torn apart."""

import os
import signal

import pytest

from envfarm_cli import interrupts
from envfarm_cli.interrupts import Interrupted


@pytest.fixture(autouse=True)
def handlers():
    with interrupts.caught():
        yield


def test_a_signal_becomes_an_exception_with_its_exit_code():
    with pytest.raises(Interrupted) as caught:
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.exit_code == 143


def test_a_held_signal_is_raised_at_the_end_of_the_outermost_block():
    steps = []
    with pytest.raises(Interrupted):
        with interrupts.held():
            with interrupts.held():
                os.kill(os.getpid(), signal.SIGINT)
                steps.append("inner")
            steps.append("outer")
    assert steps == ["inner", "outer"]


def test_a_signal_while_stopping_is_forgotten():
    with interrupts.final():
        os.kill(os.getpid(), signal.SIGINT)
    with interrupts.held():
        pass
