"""Capacity is shared: who has much leaves room for who has little and asks."""

import pytest
from envfarm.errors import DrainingError, NoCapacity
from envfarm_common.metrics import Instruments

from env_server.admission import HUNGRY_SECONDS, Admission


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def admission(clock: Clock) -> Admission:
    return Admission(4, Instruments("env-server"), clock)


def ask(admission: Admission, client: str, times: int = 1) -> int:
    """How many of so many opens are let in."""
    let_in = 0
    for _ in range(times):
        try:
            admission.admit(client, is_draining=False, has_database=True)
            let_in += 1
        except NoCapacity as refusal:
            assert refusal.retry_after_seconds
    return let_in


def test_one_client_alone_may_have_all(admission: Admission):
    assert ask(admission, "a", 6) == 4
    assert admission.held == 4


def test_a_place_that_comes_free_is_kept_for_who_was_refused_with_less(admission: Admission):
    assert ask(admission, "a", 4) == 4
    assert ask(admission, "b") == 0
    admission.leave("a")
    assert ask(admission, "a", 5) == 0
    assert ask(admission, "b") == 1


def test_a_hungry_client_gets_its_share_and_no_more(admission: Admission):
    ask(admission, "a", 4)
    ask(admission, "b")
    got = 0
    for _ in range(6):
        admission.leave("a")
        ask(admission, "a", 3)
        got += ask(admission, "b")
    assert got == 2
    assert admission.held == 4


def test_a_client_that_gave_up_holds_nobody_back(admission: Admission, clock: Clock):
    ask(admission, "a", 4)
    ask(admission, "b")
    admission.leave("a")
    clock.now += HUNGRY_SECONDS
    assert ask(admission, "a") == 1


def test_many_clients_with_one_episode_each_are_all_let_in_while_there_is_room(
    admission: Admission,
):
    assert [ask(admission, name) for name in "abcdef"] == [1, 1, 1, 1, 0, 0]


def test_draining_and_a_lost_database_refuse_everybody(admission: Admission):
    with pytest.raises(DrainingError):
        admission.admit("a", is_draining=True, has_database=True)
    with pytest.raises(NoCapacity, match="restarted"):
        admission.admit("a", is_draining=False, has_database=False)
    assert admission.held == 0
