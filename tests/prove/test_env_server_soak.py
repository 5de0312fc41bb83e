"""Kill -9 of client, env-server and its Postgres at random points; and a long soak.

`ENVFARM_PROVE_KILLS` sets the rounds (200), `ENVFARM_PROVE_SOAK` the episodes (20,000).
"""

import asyncio
import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import pytest
from envfarm.errors import EnvfarmError
from envfarm.v1 import episode_pb2

from tests.support.env_server import EnvClient, start_env_server, wait_until_ready
from tests.support.postgres_traces import (
    folders,
    postmaster,
    processes,
    segment,
    shared_memory,
    wait_until_async,
)
from tests.support.proof import write_proof

ORDERS = Path(__file__).parents[2] / "domains"
TASK = "orders/cancel-placed"
KILLS = int(os.environ.get("ENVFARM_PROVE_KILLS", "200"))
EPISODES = int(os.environ.get("ENVFARM_PROVE_SOAK", "20000"))
SEED = 1
CLIENT = """
import asyncio, sys
from tests.support.env_server import EnvClient
from envfarm.v1.env_service_pb2_grpc import EnvServiceStub
from envfarm_common.grpc import connect
async def main():
    channel, infra = connect(sys.argv[1], sys.argv[2])
    client = EnvClient(EnvServiceStub(channel), infra, infra)
    while True:
        episode = await client.open("orders/cancel-placed", slot_mode=2, lease_seconds=3)
        await client.call(episode, "cancel_order", order_id="O-1027")
        await client.seal(episode)
        await client.close(episode)
asyncio.run(main())
"""


async def _episode(client: EnvClient, hashes: set[str]) -> float:
    begin = time.perf_counter()
    episode = await client.open(TASK, slot_mode=episode_pb2.SLOT_MODE_REUSE, lease_seconds=10)
    opened = time.perf_counter() - begin
    hashes.add(episode.initial_state_hash)
    await client.call(episode, "cancel_order", order_id="O-1027")
    sealed = await client.seal(episode)
    hashes.add("end " + sealed.final_state_hash)
    await client.close(episode)
    return opened


async def _counted(http: str, name: str) -> int:
    """A counter of the env-server, summed over its labels."""
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"{http}/metrics")).text
    lines = [line for line in text.splitlines() if line.startswith(name + "{")]
    return int(sum(float(line.rpartition(" ")[2]) for line in lines))


@pytest.mark.prove
@pytest.mark.timeout(7200)
async def test_kills_at_random_points_leak_nothing_and_hand_out_no_wrong_state(tmp_path: Path):
    choice = random.Random(SEED)
    tmp_path.chmod(0o755)
    hashes: set[str] = set()
    kills = {"client": 0, "env-server": 0, "postgres": 0}
    segments: set[str] = set()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        Path(memory).chmod(0o755)
        settings = {"memory_dir": memory, "ready_low": 1, "ready_high": 2}
        server = start_env_server(ORDERS, tmp_path, **settings)
        for _ in range(KILLS):
            victim = choice.choice(sorted(kills))
            kills[victim] += 1
            other = subprocess.Popen(
                [sys.executable, "-c", CLIENT, server.grpc, server.infra_token],
                cwd=Path(__file__).parents[2],
                stderr=subprocess.DEVNULL,
            )
            await asyncio.sleep(choice.uniform(0.3, 1.5))
            segments |= {segment(folder) for folder in folders(Path(memory))}
            if victim == "env-server":
                server.process.kill()
                server.process.wait()
                other.kill()
                other.wait()
                server = start_env_server(ORDERS, tmp_path, **settings)
                wait_until_ready(server, tmp_path)
                # One sweep, that of the start, has taken all that the dead one had.
                assert len(folders(Path(memory))) == 1
                continue
            if victim == "postgres":
                os.kill(postmaster(folders(Path(memory))[0]), signal.SIGKILL)
            other.kill()
            other.wait()
            async with server.client() as client, asyncio.timeout(60):
                while True:
                    try:
                        await _episode(client, hashes)
                        break
                    except EnvfarmError:
                        await asyncio.sleep(0.05)
        async with server.client() as client:

            async def is_idle() -> bool:
                return (await client.capacity()).live_episodes == 0

            async with asyncio.timeout(30):
                while not await is_idle():
                    await asyncio.sleep(0.1)
            # Each episode of this last env-server has ended once, whatever befell it.
            opened = await _counted(server.http, "envfarm_episodes_opened_total")
            ended = await _counted(server.http, "envfarm_episodes_ended_total")
        (folder,) = folders(Path(memory))
        assert server.stop() == 0
        await wait_until_async(lambda: processes(folder) == [], "processes")
        left = [*folders(Path(memory)), *Path(memory).iterdir()]
    leaked = len(left) + len(shared_memory() & segments)
    write_proof(
        "env-server-kills",
        {
            "seed": SEED,
            "rounds": KILLS,
            "kills": kills,
            "leaked": leaked,
            "states": len(hashes),
            "opened_since_last_start": opened,
            "ended_since_last_start": ended,
        },
    )
    assert leaked == 0
    assert opened == ended > 0
    assert len(hashes) == 2


@pytest.mark.prove
@pytest.mark.timeout(7200)
async def test_a_long_soak_stays_flat(tmp_path: Path):
    tmp_path.chmod(0o755)
    hashes: set[str] = set()
    server = start_env_server(ORDERS, tmp_path, log_level="warning", ready_low=2, ready_high=4)
    opens: list[float] = []
    samples: list[tuple[int, float, int]] = []

    def sample() -> tuple[int, float, int]:
        root = Path("/proc") / str(server.process.pid)
        kib = next(
            int(line.split()[1])
            for line in (root / "smaps_rollup").read_text().splitlines()
            if line.startswith("Pss:")
        )
        return len(opens), kib / 1024, len(list((root / "fd").iterdir()))

    try:
        async with server.client() as client:
            numbers = iter(range(EPISODES))

            async def worker() -> None:
                for number in numbers:
                    opens.append(await _episode(client, hashes))
                    if number % max(1, EPISODES // 20) == 0:
                        client.opened.clear()
                        samples.append(sample())

            await asyncio.gather(*(worker() for _ in range(4)))
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.stop()
    tenth = max(1, EPISODES // 10)
    # The first tenth fills caches and the memory of ended episodes.
    steady = samples[len(samples) // 2 :]
    drift = statistics.median(opens[-tenth:]) / statistics.median(opens[tenth : 2 * tenth])
    figures = {
        "episodes": EPISODES,
        "open_p50_ms": round(statistics.median(opens) * 1000, 3),
        "drift_ratio": round(drift, 3),
        "memory_mb": [round(mb, 1) for _, mb, _ in samples],
        "descriptors": [count for _, _, count in samples],
        "states": len(hashes),
    }
    write_proof("env-server-soak", figures)
    assert len(hashes) == 2
    assert drift < 1.5
    assert steady[-1][1] < steady[0][1] * 1.1
    assert max(count for _, _, count in steady) <= max(count for _, _, count in samples[:10]) + 16
