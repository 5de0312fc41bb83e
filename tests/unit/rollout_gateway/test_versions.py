"""Which policy versions come into service."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from envfarm.errors import EngineError, FencedError, InvalidArgument, VersionMismatch
from envfarm.sampling import Sampling
from envfarm.v1 import policy_pb2
from envfarm_common.metrics import Instruments

from rollout_gateway.engine import Engine
from rollout_gateway.policy import EngineState, Policy
from rollout_gateway.versions import Versions
from tests.support.policy_server import PolicyServer, logprob, write_weights
from tests.support.tiny_tokenizer import write_tokenizer

IDS = [4, 9, 11]
Make = Callable[[], tuple[Policy, Versions]]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[PolicyServer]]:
    tokenizer = write_tokenizer(tmp_path / "tokenizer")
    with (
        PolicyServer(tokenizer, lambda rollout, turn, prompt: "one") as one,
        PolicyServer(tokenizer, lambda rollout, turn, prompt: "two") as two,
    ):
        yield [one, two]


@pytest_asyncio.fixture
async def make(servers: list[PolicyServer], tmp_path: Path) -> AsyncIterator[Make]:
    """Each call is a gateway process of its own with the same state folder."""
    made: list[Policy] = []

    def build() -> tuple[Policy, Versions]:
        engines = [Engine(server.url, "policy", Sampling(), 5.0) for server in servers]
        policy = Policy(engines, (), "wait")
        made.append(policy)
        return policy, Versions(policy, tmp_path / "versions.json", Instruments("rollout-gateway"))

    yield build
    for policy in made:
        await policy.close()


def update(
    folder: Path,
    number: int,
    *,
    hash: str = "a",
    epoch: int = 1,
    offset: float = 0.0,
    **more: float,
) -> policy_pb2.WeightUpdate:
    claimed = more.get("claimed", offset)
    return policy_pb2.WeightUpdate(
        version=policy_pb2.PolicyVersion(run_id="r", number=number, weights_hash=hash * 64),
        path=str(write_weights(folder / f"{number}{hash}", offset)),
        learner_epoch=epoch,
        probe=policy_pb2.ProbePrompt(
            token_ids=IDS, logprobs=[logprob(i, claimed) for i in IDS[1:]], tolerance=1e-4
        ),
    )


async def turn(policy: Policy, sticky: str = "x"):
    return await policy.generate([1, 2], request_id="g.s0.a1.t0", sticky=sticky, max_tokens=20)


async def test_generation_waits_until_there_is_a_version(make: Make, tmp_path: Path):
    policy, versions = make()
    waiting = asyncio.create_task(turn(policy))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert versions.in_service is None
    await versions.announce(update(tmp_path, 7))
    sampled = await asyncio.wait_for(waiting, 5)
    assert sampled.versions == [(7, len(sampled.ids))]


async def test_all_engines_get_the_weights_and_their_name(
    make: Make, servers: list[PolicyServer], tmp_path: Path
):
    _, versions = make()
    version, gap, _ = await versions.announce(update(tmp_path, 7, offset=0.5))
    assert version.number == 7
    assert gap < 1e-6
    assert [server.label for server in servers] == ["7:" + "a" * 16] * 2
    assert [server.offset for server in servers] == [0.5, 0.5]


async def test_the_same_version_again_changes_nothing(
    make: Make, servers: list[PolicyServer], tmp_path: Path
):
    _, versions = make()
    await versions.announce(update(tmp_path, 7))
    servers[0].label = "watched"
    _, _, seconds = await versions.announce(update(tmp_path, 7))
    assert seconds == 0.0
    assert servers[0].label == "watched"


async def test_a_known_number_with_other_weights_is_refused(make: Make, tmp_path: Path):
    _, versions = make()
    await versions.announce(update(tmp_path, 7))
    with pytest.raises(FencedError, match="announced with weights"):
        await versions.announce(update(tmp_path, 7, hash="b"))
    assert versions.in_service is not None
    assert versions.in_service.weights_hash == "a" * 64


async def test_a_learner_that_lost_its_lease_is_refused(make: Make, tmp_path: Path):
    _, versions = make()
    await versions.announce(update(tmp_path, 7, epoch=2))
    with pytest.raises(FencedError, match="epoch 2 was here"):
        await versions.announce(update(tmp_path, 8, epoch=1))


async def test_a_resumed_learner_goes_back_and_replaces_what_it_abandons(
    make: Make, tmp_path: Path
):
    _, versions = make()
    for number in (5, 6, 7):
        await versions.announce(update(tmp_path, number))
    await versions.announce(update(tmp_path, 5, epoch=2))
    assert versions.version("r", 6) is None
    await versions.announce(update(tmp_path, 6, hash="c", epoch=2))
    found = versions.version("r", 6)
    assert found is not None and found.weights_hash == "c" * 64


async def test_wrong_weights_stop_everything_until_right_ones_come(
    make: Make, servers: list[PolicyServer], tmp_path: Path
):
    policy, versions = make()
    await versions.announce(update(tmp_path, 7))
    with pytest.raises(VersionMismatch):
        await versions.announce(update(tmp_path, 8, hash="b", offset=0.5, claimed=0.25))
    assert versions.in_service is None
    assert [place.state for place in policy.places] == [EngineState.MISMATCH] * 2
    assert [server.paused for server in servers] == [True, True]
    await versions.announce(update(tmp_path, 9, hash="d"))
    assert (await turn(policy)).versions[0][0] == 9


async def test_one_dead_engine_does_not_stop_the_other(
    make: Make, servers: list[PolicyServer], tmp_path: Path
):
    policy, versions = make()
    servers[0].__exit__()
    await versions.announce(update(tmp_path, 7))
    assert [place.state for place in policy.places] == [
        EngineState.UNPROVED,
        EngineState.SERVING,
    ]
    for sticky in ("x", "y", "z"):
        assert (await turn(policy, sticky)).versions[0][0] == 7


async def test_without_any_engine_the_announcement_may_be_repeated(
    make: Make, servers: list[PolicyServer], tmp_path: Path
):
    _, versions = make()
    for server in servers:
        server.reload_fails = True
    with pytest.raises(EngineError):
        await versions.announce(update(tmp_path, 7))
    for server in servers:
        server.reload_fails = False
    await versions.announce(update(tmp_path, 7))
    assert versions.in_service is not None


async def test_an_engine_that_started_again_gets_the_version_back(
    make: Make, servers: list[PolicyServer], tmp_path: Path
):
    policy, versions = make()
    await versions.announce(update(tmp_path, 7, offset=0.5))
    supervisor = asyncio.create_task(policy.supervise())
    for server in servers:
        server.label, server.offset = "default", 0.0
    with pytest.raises(EngineError, match="sampled under weights default"):
        await turn(policy)
    await asyncio.wait_for(policy.wait_until_serving(), 10)
    deadline = asyncio.get_running_loop().time() + 10
    while True:
        try:
            sampled = await turn(policy)
            break
        except EngineError:
            assert asyncio.get_running_loop().time() < deadline
    assert sampled.versions[0][0] == 7
    supervisor.cancel()


async def test_the_version_in_service_survives_a_restart(
    make: Make, servers: list[PolicyServer], tmp_path: Path
):
    _, versions = make()
    await versions.announce(update(tmp_path, 7))
    policy, versions = make()
    assert versions.in_service is not None
    assert versions.in_service.number == 7
    supervisor = asyncio.create_task(policy.supervise())
    await asyncio.wait_for(policy.wait_until_serving(), 10)
    assert (await turn(policy)).versions[0][0] == 7
    with pytest.raises(FencedError):
        await versions.announce(update(tmp_path, 7, hash="b"))
    supervisor.cancel()


@pytest.mark.parametrize("what", ["path", "probe", "tolerance", "hash"])
async def test_an_incomplete_announcement_is_refused(make: Make, tmp_path: Path, what: str):
    _, versions = make()
    message = update(tmp_path, 7)
    if what == "path":
        message.path = "weights/7"
    elif what == "probe":
        message.probe.logprobs.append(0.0)
    elif what == "tolerance":
        message.probe.tolerance = 0.0
    else:
        message.version.weights_hash = ""
    with pytest.raises(InvalidArgument):
        await versions.announce(message)


async def test_engines_join_prove_themselves_and_leave_when_they_are_done(
    make: Make, servers: list[PolicyServer], tmp_path: Path
):
    policy, versions = make()

    def engine(url: str) -> Engine:
        return Engine(url, "policy", Sampling(), 5.0)

    one, two = servers
    await policy.use([one.url], engine)
    await versions.announce(update(tmp_path, 7))
    assert two.label == "default"
    supervisor = asyncio.create_task(policy.supervise())
    deadline = asyncio.get_running_loop().time() + 10
    while [place.engine.url for place in policy.places] != [one.url]:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.02)
    one.delay = 0.5
    running = asyncio.create_task(turn(policy))
    await asyncio.sleep(0.05)
    await policy.use([two.url], engine)
    # The one that leaves ends its turn; the one that comes loads the weights and proves them.
    assert (await running).versions[0][0] == 7
    assert (await turn(policy, "y")).versions[0][0] == 7
    assert two.label == "7:" + "a" * 16
    assert len(two.requests) == 1
    supervisor.cancel()


async def test_a_rollout_stays_at_its_engine_when_another_one_comes(
    make: Make, servers: list[PolicyServer], tmp_path: Path
):
    policy, versions = make()
    await versions.announce(update(tmp_path, 7))
    names = [f"rollout-{number}" for number in range(40)]
    before = {name: (await policy._place(name)).engine.url for name in names}
    assert len(set(before.values())) == 2
    await policy.use(
        [server.url for server in servers] + ["http://127.0.0.1:9"],
        lambda url: Engine(url, "policy", Sampling(), 5.0),
    )
    assert {name: (await policy._place(name)).engine.url for name in names} == before
