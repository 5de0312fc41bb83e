"""A campaign whose stack loses a process says which one, whoever hears of it first."""

import httpx
import pytest

from envfarm_cli.campaign.farm import naming_the_dead
from envfarm_cli.failure import ChildFailed, NotRunning, as_failure

DIED = ChildFailed("gateway ended too early: killed by SIGKILL")


def after(looks: int):
    """A check that finds the death at that look."""
    left = [None] * (looks - 1)

    def check() -> None:
        if not left:
            raise DIED
        left.pop()

    return check


@pytest.mark.parametrize("looks", [1, 3])
@pytest.mark.parametrize("error", [ConnectionRefusedError("refused"), httpx.ConnectError("gone")])
def test_a_call_without_answer_is_the_death_of_the_process(error: Exception, looks: int):
    with pytest.raises(ChildFailed) as failure, naming_the_dead(after(looks)):
        raise error
    assert failure.value is DIED and failure.value.__cause__ is error


def test_a_silence_of_living_processes_stays_what_it_is():
    with pytest.raises(ConnectionRefusedError) as error:
        with naming_the_dead(lambda: None, seconds=0.1):
            raise ConnectionRefusedError("refused")
    assert isinstance(as_failure(error.value), NotRunning)


def test_what_is_no_silence_is_not_looked_into():
    with pytest.raises(OSError, match="full"), naming_the_dead(after(1)):
        raise OSError(28, "full")
