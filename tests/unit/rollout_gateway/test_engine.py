"""One engine over real HTTP: what it may answer, and what is an EngineError."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from envfarm.errors import EngineError, VersionMismatch
from envfarm.sampling import Sampling
from envfarm.v1 import policy_pb2

from rollout_gateway.chat.vocabulary import Vocabulary
from rollout_gateway.engine import Engine
from tests.support.policy_server import CUT, PolicyServer, logprob, write_weights
from tests.support.tiny_tokenizer import write_tokenizer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PolicyServer]:
    tokenizer = write_tokenizer(tmp_path / "tokenizer")
    with PolicyServer(tokenizer, lambda rollout, turn, prompt: f"turn {turn}") as running:
        yield running


@pytest_asyncio.fixture
async def engine(server: PolicyServer) -> AsyncIterator[Engine]:
    client = Engine(server.url, "policy", Sampling(), generate_seconds=1.0)
    yield client
    await client.close()


async def test_ids_go_in_and_ids_logprobs_and_versions_come_out(
    server: PolicyServer, engine: Engine, words: Vocabulary
):
    stops = (words.turn_end,)
    got = await engine.generate([1, 2, 3], request_id="r.t0", max_tokens=50, stops=stops)
    assert got.ids == [*words.plain("turn 0"), words.turn_end]
    assert got.logprobs == [logprob(i) for i in got.ids]
    assert got.spans == [("default", len(got.ids))]
    assert not got.cut


async def test_every_sampling_parameter_is_sent_and_no_seed(server: PolicyServer, engine: Engine):
    await engine.generate([1], request_id="r.t0", max_tokens=9, stops=(8,))
    sent = server.requests[0]["sampling_params"]
    assert sent["max_tokens"] == 9
    assert (sent["temperature"], sent["top_k"], sent["top_p"]) == (1.0, 20, 0.95)
    assert sent["seed"] is None
    assert (sent["stop_token_ids"], sent["ignore_eos"], sent["logprobs"]) == ([8], True, 0)


async def test_a_turn_that_fills_its_room_is_cut(server: PolicyServer, engine: Engine):
    server.script = lambda rollout, turn, prompt: "abcdefgh" + CUT
    got = await engine.generate([1], request_id="r.t0", max_tokens=4, stops=())
    assert len(got.ids) == 4
    assert got.cut


FAULTS = {
    "http_500": "HTTP 500",
    "disconnect": "ClientPayloadError",
    "not_json": "JSONDecodeError",
    "aborted": "ended by 'abort'",
    "too_many": "wanted 1 to 50",
    "short_logprobs": "log-probabilities",
    "other_ids": "other tokens",
    "nan": "no log-probability",
    "no_versions": "cover 0 of",
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_wrong_answer_is_an_engine_error(server: PolicyServer, engine: Engine, fault: str):
    server.faults["r.t0"] = fault
    with pytest.raises(EngineError, match=FAULTS[fault]):
        await engine.generate([1], request_id="r.t0", max_tokens=50, stops=())
    assert (await engine.generate([1], request_id="r.t0", max_tokens=50, stops=())).ids


async def test_an_engine_that_hangs_is_given_up_and_told_to_abort(
    server: PolicyServer, engine: Engine
):
    server.faults["r.t0"] = "hang"
    with pytest.raises(EngineError, match=r"no answer to r\.t0 within 1 s"):
        await engine.generate([1], request_id="r.t0", max_tokens=50, stops=())
    assert server.aborted == ["generate-tokens-r.t0"]


async def test_a_cancelled_generation_is_aborted(server: PolicyServer, engine: Engine):
    server.faults["r.t0"] = "hang"
    task = asyncio.create_task(engine.generate([1], request_id="r.t0", max_tokens=50, stops=()))
    while not server.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.aborted == ["generate-tokens-r.t0"]


async def test_a_dead_engine_is_an_engine_error(server: PolicyServer, engine: Engine):
    server.__exit__()
    with pytest.raises(EngineError, match="ClientConnectorError"):
        await engine.generate([1], request_id="r.t0", max_tokens=50, stops=())
    assert not await engine.is_healthy()


async def test_a_model_that_is_not_served_is_named(server: PolicyServer):
    stranger = Engine(server.url, "other", Sampling(), 1.0)
    with pytest.raises(EngineError, match="no model named other"):
        await stranger.max_length()
    await stranger.close()


async def test_a_prefix_cache_that_is_held_is_reset_again(
    server: PolicyServer, engine: Engine, tmp_path: Path
):
    server.failing_resets = 2
    await engine.reload(str(write_weights(tmp_path / "w", 0.5)), "4:abc", "wait")
    assert (server.label, server.offset, server.paused) == ("4:abc", 0.5, False)


def prompt(offset: float, tolerance: float = 1e-4) -> policy_pb2.ProbePrompt:
    ids = [4, 9, 11]
    return policy_pb2.ProbePrompt(
        token_ids=ids, logprobs=[logprob(i, offset) for i in ids[1:]], tolerance=tolerance
    )


async def test_the_probe_measures_the_largest_gap(engine: Engine):
    assert await engine.check_probe(prompt(0.0)) == 0.0
    assert await engine.check_probe(prompt(0.25, tolerance=0.3)) == 0.25
    with pytest.raises(VersionMismatch, match=r"differ by 0.25, tolerance 0.0001"):
        await engine.check_probe(prompt(0.25))
