"""End states that try to fool the grader; and a second grader, which must see them the same way."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from grader.checks import state as state_check
from grader.checks.matching import unmatched
from tests.support import desk_states
from tests.support.desk import DOMAINS, Desk, agreement, open_desk
from tests.support.desk_states import STATES, State
from tests.support.env_server import EnvServer, running_env_server

on_one_loop = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def server() -> Iterator[EnvServer]:
    with running_env_server(DOMAINS) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(server: EnvServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with open_desk(server, tmp_path_factory.mktemp("golden")) as opened:
        yield opened


@on_one_loop
@pytest.mark.parametrize("state", STATES, ids=lambda state: f"{state.task}: {state.name}")
async def test_an_end_state_gets_what_it_deserves(desk: Desk, state: State):
    reply = desk.golden_reply(state.task) if state.reply is None else state.reply
    statements = state.statements(desk.golden_statements(state.task))
    both = await desk.attempt(state.task, statements, reply)
    seen = (both.graded.decision.status, both.graded.decision.reward, both.slow)
    assert seen == ("graded", float(state.reward), bool(state.reward)), both


@on_one_loop
async def test_a_second_grader_agrees_on_random_episodes(desk: Desk):
    counts = await agreement(desk, desk_states, episodes=60, seed=1)
    assert counts["episodes"] == 60
    assert counts["reward_1"] >= 5 and counts["reward_0"] >= 5, counts


FAULTS = {
    "extra rows are overlooked": lambda expected, observed: (unmatched(expected, observed)[0], []),
    "missing rows are overlooked": lambda expected, observed: (
        [],
        unmatched(expected, observed)[1],
    ),
}


@on_one_loop
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_grader_with_a_fault_is_found_by_the_second(
    desk: Desk, fault: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(state_check, "unmatched", FAULTS[fault])
    with pytest.raises(ExceptionGroup) as caught:
        await agreement(desk, desk_states, episodes=60, seed=1)
    assert caught.value.subgroup(AssertionError)


def test_there_are_enough_of_them_and_no_two_are_called_the_same():
    names = [(state.task, state.name) for state in STATES]
    assert len(set(names)) == len(names) >= 60
