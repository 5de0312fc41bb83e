"""`envfarm bench env`: open, call, seal, grade, close, through every door, beside the floor."""

import asyncio
import json as json_format
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer
import uvloop
from envfarm_common import logging
from envfarm_common.binaries import find_postgres

from env_server.evidence import SESSION
from env_server.postgres import EmbeddedPostgres
from envfarm_cli import loops
from envfarm_cli.bench import world
from envfarm_cli.bench.episodes import Client, Doors, Timings
from envfarm_cli.bench.processes import Cost, cost
from envfarm_cli.commands_stack import DEFAULT_STATE, JsonOption, StateDirOption
from envfarm_cli.failure import Failure
from envfarm_cli.output import OK, Output
from envfarm_cli.service_specs import StackOptions
from envfarm_cli.stack import Stack
from envfarm_cli.state_apart import state_apart
from envfarm_cli.state_dir import StateDir

LIVE = 16
"""Episodes that are held open for the figure of memory."""
COLD = 12
WARM_UP = 40
FLOOR_EPISODES = 1000


def env(
    episodes: Annotated[int, typer.Option(min=40, help="Episodes to run.")] = 1000,
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes at once.")] = 4,
    slot_mode: Annotated[
        str,
        typer.Option(
            help="[b]reuse[/b] hands slots out again after a verified undo, as training does; "
            "[b]fresh[/b] always clones, as evaluation does."
        ),
    ] = "reuse",
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Run whole episodes on a world of 24 tables and 10 MB, and time each part.

    An episode is 5 calls, 3 of them writes on distinct rows, then seal, grade over HTTP, close;
    every second one is wrong on purpose and each verdict is checked. A quarter runs one at a time,
    for the latencies; the rest [b]--concurrency[/b] at once, for throughput, CPU and drift.
    The floor is the same SQL by psycopg on one open connection.

    Example: [b]envfarm bench env --episodes 20000 --json[/b]
    """
    out = Output(json)
    if slot_mode not in ("reuse", "fresh"):
        raise typer.BadParameter("choose reuse or fresh", param_hint="--slot-mode")
    with state_apart(StateDir(state_dir), "bench") as apart:
        domains = apart.path / "domains"
        domains.mkdir()
        world.write_world(domains)
        with out.console.status("measuring whole episodes"):
            figures = _measure(apart, domains, episodes, concurrency, slot_mode == "reuse")
        with out.console.status("measuring the floor"):
            floor = loops.run(_floor(domains, apart.path / "floor", min(episodes, FLOOR_EPISODES)))
    figures["floor"] = {name: _rounded(value) for name, value in floor.items()}
    for name, value in figures.items():
        if name not in ("floor", "cpu_ms_by_process", "world"):
            beside = figures["floor"].get(name)
            out.say(
                f"{name:<24}{value!s:>12}" + (f"   floor {beside}" if beside is not None else "")
            )
    if figures["wrong_verdicts"]:
        raise Failure(f"{figures['wrong_verdicts']} of {episodes} verdicts were wrong")
    out.result({"ok": True, **figures})
    return OK


def _measure(
    apart: StateDir, domains: Path, episodes: int, concurrency: int, reuse: bool
) -> dict[str, Any]:
    settings = {
        "ENV_SERVER_MAX_EPISODES": str(max(64, concurrency + LIVE)),
        "ENV_SERVER_READY_LOW": "4",
        "ENV_SERVER_READY_HIGH": "8",
        "ENV_SERVER_LOG_LEVEL": "warning",
    }
    options = StackOptions(domains=domains, engine="scripted", env_settings=settings)
    with Stack(apart, options, lambda line: None) as stack:
        stack.start_env_server()
        stack.start_grader()
        stack.prove("bench")
        pids = {name: _pid(stack, name) for name in ("env-server", "grader")}
        keys = apart.secrets()
        doors = Doors(
            stack.address("env-server", "grpc"),
            keys["env_infra"],
            stack.address("grader", "http"),
            keys["grader_client"],
        )
        # On the loop that gateways use.
        figures = uvloop.run(_run(doors, pids, episodes, concurrency, reuse))
        env_server = pids["env-server"]
    # All that the env-server made must be gone with it.
    figures["leaked"] += sum(kind.pss_mb > 0 for kind in cost(env_server).values())
    return figures


def _pid(stack: Stack, name: str) -> int:
    child = stack.find(name)
    assert child
    return child.identity.pid


async def _run(
    doors: Doors, pids: dict[str, int], episodes: int, concurrency: int, reuse: bool
) -> dict[str, Any]:
    cold, alone, busy, wasted = Timings(), Timings(), Timings(), Timings()
    async with Client(doors, reuse=False) as client:
        # More at once than lie ready: most of these wait for a clone.
        held = await asyncio.gather(*(client.open(cold) for _ in range(COLD)))
        for episode in held:
            await client.close(episode)
    async with Client(doors, reuse=reuse) as client:
        await client.episodes(WARM_UP, concurrency, wasted)
        await _until_ready(client)
        await client.episodes(episodes // 4, 1, alone)
        before = _costs(pids)
        count = episodes - episodes // 4
        seconds = await client.episodes(count, concurrency, busy)
        after = _costs(pids)
        capacity = await client.capacity()
    async with Client(doors, reuse=False) as client:
        memory = await _memory(client, pids)
    opens = [*alone.opens, *busy.opens]
    tenth = max(1, len(busy.opens) // 10)
    spent = {name: (after[name] - before[name]) * 1000 / count for name in after}
    return {
        "open_p50_ms": percentile(alone.opens, 50),
        "open_p99_ms": percentile(alone.opens, 99),
        "cold_open_p50_ms": percentile(sorted(cold.opens)[COLD // 2 :], 50),
        "call_p50_ms": percentile(alone.calls, 50),
        "seal_p50_ms": percentile(alone.seals, 50),
        "grade_p50_ms": percentile(alone.grades, 50),
        "seal_grade_p50_ms": percentile(alone.seal_grades, 50),
        "episodes_per_second": _rounded(count / seconds),
        "cpu_ms_per_episode": _rounded(sum(spent.values())),
        "cpu_ms_by_process": {name: _rounded(value) for name, value in spent.items()},
        "rss_per_episode_mb": _rounded(memory),
        "opens": len(opens) + COLD + WARM_UP + LIVE,
        "drift_ratio": _rounded(
            statistics.median(busy.opens[-tenth:]) / statistics.median(busy.opens[:tenth])
        ),
        "leaked": capacity.live_episodes,
        "wrong_verdicts": alone.wrong_verdicts + busy.wrong_verdicts + wasted.wrong_verdicts,
        "concurrency": concurrency,
        "slot_mode": "reuse" if reuse else "fresh",
        "not_reused": dict(capacity.not_reused),
        "world": {"tables": world.TABLES, "seed_mb": _rounded(len(world.seed_sql()) / 1e6)},
    }


async def _until_ready(client: Client) -> None:
    """Slots lie ready again; a pool that never fills is an error."""
    for _ in range(300):
        if (await client.capacity()).ready_slots["bench"] >= 4:
            return
        await asyncio.sleep(0.1)
    raise Failure("no slot became ready within 30 seconds")


async def _memory(client: Client, pids: dict[str, int]) -> float:
    """Resident megabytes of one further live episode: env-server and Postgres."""

    async def grown() -> float:
        return sum((item.pss_mb for item in cost(pids["env-server"]).values()), 0.0)

    await _until_ready(client)
    before = await grown()
    held = []
    for _ in range(LIVE):
        episode = await client.open()
        await client.call_all(episode, world.CALLS, [])
        held.append(episode)
    await _until_ready(client)
    found = (await grown() - before) / LIVE
    for episode in held:
        await client.close(episode)
    return found


def _costs(pids: dict[str, int]) -> dict[str, float]:
    """CPU seconds so far, by process."""
    trees: dict[str, dict[str, Cost]] = {name: cost(pid) for name, pid in pids.items()}
    return {
        "client": sum(os.times()[:2]),
        "env-server": trees["env-server"]["own"].cpu_seconds,
        "postgres": trees["env-server"]["postgres"].cpu_seconds,
        "grader": trees["grader"]["own"].cpu_seconds,
    }


async def _floor(domains: Path, state: Path, episodes: int) -> dict[str, float]:
    logging.configure("floor", "warning")
    server = await EmbeddedPostgres.start(
        find_postgres(),
        state_dir=state,
        memory_dir=Path("/dev/shm"),
        max_connections=10,
        user="nobody",
    )
    try:
        async with await psycopg.AsyncConnection.connect(
            server.conninfo, autocommit=True, options=SESSION
        ) as conn:
            for name in ("schema.sql", "seed.sql"):
                await conn.execute((domains / "bench/world" / name).read_bytes())
            await conn.execute("VACUUM ANALYZE")
        calls = [(world.TOOL_SQL[tool], arguments) for tool, arguments in world.CALLS]
        before = cost(server.pid)["postgres"].cpu_seconds
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "envfarm_cli.bench.floor", server.conninfo, str(episodes)],
            input=json_format.dumps(calls),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise Failure(f"the floor failed: {done.stderr.strip().splitlines()[-1]}")
        figures: dict[str, float] = json_format.loads(done.stdout)
        postgres = cost(server.pid)["postgres"].cpu_seconds - before
        figures["cpu_ms_per_episode"] += postgres * 1000 / episodes
        return figures
    finally:
        await server.stop()


def percentile(seconds: Sequence[float], percent: int) -> float:
    """In milliseconds, to the microsecond."""
    if len(seconds) < 2:
        return round(seconds[0] * 1000, 3)
    return round(statistics.quantiles(seconds, n=100)[percent - 1] * 1000, 3)


def _rounded(value: float) -> float:
    return round(value, 3)
