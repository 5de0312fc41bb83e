"""The life of an episode, as a table of moves."""

import itertools

import pytest
from envfarm.errors import WrongState

from env_server.episode import End, Episode, State

MOVES = {
    "run": lambda episode: episode.run(),
    "seal": lambda episode: episode.seal(),
    "close": lambda episode: episode.close(),
    "fail": lambda episode: episode.fail(End.DATABASE, "its Postgres ended"),
}
ALLOWED = {
    (State.OPENING, "run"): State.RUNNING,
    (State.OPENING, "close"): State.CLOSED,
    (State.OPENING, "fail"): State.FAILED,
    (State.RUNNING, "seal"): State.SEALED,
    (State.RUNNING, "close"): State.CLOSED,
    (State.RUNNING, "fail"): State.FAILED,
    (State.SEALED, "close"): State.CLOSED,
    (State.SEALED, "fail"): State.FAILED,
}


def episode_in(state: State) -> Episode:
    episode = Episode("ep-1")
    episode.state = state
    return episode


@pytest.mark.parametrize(("state", "move"), list(itertools.product(State, MOVES)))
def test_only_the_moves_of_the_table_are_possible(state: State, move: str):
    episode = episode_in(state)
    if (state, move) in ALLOWED:
        MOVES[move](episode)
        assert episode.state is ALLOWED[state, move]
    else:
        with pytest.raises(WrongState, match=f"cannot go from {state.value}"):
            MOVES[move](episode)
        assert episode.state is state


def test_a_failed_episode_keeps_its_reason():
    episode = episode_in(State.RUNNING)
    episode.fail(End.LEASE_EXPIRED, "nobody renewed it")
    assert (episode.end, episode.reason) == (End.LEASE_EXPIRED, "nobody renewed it")
    with pytest.raises(WrongState, match="nobody renewed it"):
        episode.require(State.RUNNING)
