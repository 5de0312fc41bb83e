"""Hundreds of episodes live at once: each keeps its own state, and a further one costs little memory.

`ENVFARM_PROVE_LIVE` sets their number (512).
"""

import asyncio
import os
import statistics
import time
from pathlib import Path

import pytest
from envfarm.v1 import episode_pb2

from envfarm_cli.bench.processes import cost
from tests.support.env_server import EnvClient, EnvServer, running_env_server
from tests.support.proof import write_proof

DOMAINS = Path(__file__).parents[2] / "domains"
TASK = "orders/cancel-placed"
LIVE = int(os.environ.get("ENVFARM_PROVE_LIVE", "512"))
AT_ONCE = 32


def pss_mb(server: EnvServer) -> float:
    return sum(item.pss_mb for item in cost(server.process.pid).values())


async def episode_with_a_call(
    client: EnvClient, number: int, calls: list[float]
) -> episode_pb2.Episode:
    """Every second one changes something."""
    episode = await client.open(TASK, lease_seconds=3600)
    if number % 2:
        begin = time.perf_counter()
        assert not (await client.call(episode, "cancel_order", order_id="O-1027")).is_error
        calls.append(time.perf_counter() - begin)
    return episode


@pytest.mark.prove
@pytest.mark.timeout(3600)
async def test_many_episodes_live_at_once_and_each_keeps_its_own_state(tmp_path: Path):
    gate = asyncio.Semaphore(AT_ONCE)
    calls: list[float] = []
    with running_env_server(DOMAINS, tmp_path, max_episodes=LIVE, max_lease_seconds=3600) as server:
        async with server.client() as client:

            async def begin(number: int) -> episode_pb2.Episode:
                async with gate:
                    return await episode_with_a_call(client, number, calls)

            async def end(episode: episode_pb2.Episode) -> str:
                async with gate:
                    final = (await client.seal(episode)).final_state_hash
                    await client.close(episode)
                    return final

            few = AT_ONCE // 2
            first = await asyncio.gather(*(begin(number) for number in range(few)))
            before = pss_mb(server)
            rest = await asyncio.gather(*(begin(number) for number in range(few, LIVE)))
            each_mb = (pss_mb(server) - before) / (LIVE - few)
            assert (await client.capacity()).live_episodes == LIVE
            finals = await asyncio.gather(*map(end, [*first, *rest]))
            assert (await client.capacity()).live_episodes == 0
        initial = first[0].initial_state_hash
        assert set(finals[::2]) == {initial}
        assert len(set(finals[1::2])) == 1 and initial not in finals[1::2]
        assert server.stop(300) == 0
    write_proof(
        "live-episodes",
        {
            "live_at_once": LIVE,
            "mb_of_each_further_one": round(each_mb, 2),
            "first_call_p50_ms": round(statistics.median(calls) * 1000, 1),
            "wrong_final_states": 0,
        },
    )
