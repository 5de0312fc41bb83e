"""`envfarm bench grader`: one world of 10 MB graded by reference, by DSN and by tables."""

import asyncio
import json as json_format
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import httpx
import psycopg
import typer
from envfarm.v1 import env_service_pb2 as pb
from envfarm.v1 import env_service_pb2_grpc
from envfarm_common import grpc, logging
from envfarm_common.binaries import find_postgres
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from env_server.evidence import SESSION
from env_server.postgres import EmbeddedPostgres
from envfarm_cli import loops, service_specs
from envfarm_cli.bench import world
from envfarm_cli.bench.env import percentile
from envfarm_cli.bench.episodes import Client, Doors
from envfarm_cli.bench.processes import cost
from envfarm_cli.commands_stack import DEFAULT_STATE, JsonOption, StateDirOption
from envfarm_cli.failure import Failure
from envfarm_cli.output import OK, Output
from envfarm_cli.service_specs import StackOptions
from envfarm_cli.stack import SERVICE_SECONDS, Stack
from envfarm_cli.state_apart import state_apart
from envfarm_cli.state_dir import StateDir

SEALED = 40
"""Episodes that are sealed before they are graded together."""
AT_ONCE = 8
COLD_STARTS = 3
READER, PASSWORD = "bench_reader", "bench-reader"


def grader(
    rounds: Annotated[
        int, typer.Option(min=20, help="Gradings by reference, one at a time.")
    ] = 200,
    workers: Annotated[int, typer.Option(min=1, help="Processes of the grader.")] = 1,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Grade right ends of a world of 24 tables and 10 MB, and check every verdict.

    By reference one at a time for the latencies, then 8 at once for the throughput; then by DSN and
    by JSON of the whole state, a tenth as often. Cold is the first grading after a start. The
    floors are psycopg reading the same rows, and the standard library parsing the same text.

    Example: [b]envfarm bench grader --json[/b]
    """
    out = Output(json)
    with state_apart(StateDir(state_dir), "bench") as apart:
        domains = apart.path / "domains"
        domains.mkdir()
        world.write_world(domains)
        with out.console.status("measuring"):
            figures = loops.run(_measure(apart, domains, rounds, workers))
    for name, value in figures.items():
        out.say(f"{name:<24}{value!s:>12}")
    out.result({"ok": True, **figures})
    return OK


@dataclass(slots=True)
class _Bench:
    """Running parts; `rows` is the right end as JSON tables."""

    stack: Stack
    doors: Doors
    task_hash: str
    rows: str
    dsn: str
    number: int = 0

    def cpu_seconds(self) -> float:
        """What the grader has used so far, a scratch Postgres left out."""
        child = self.stack.find("grader")
        assert child
        return cost(child.identity.pid)["own"].cpu_seconds

    async def grade(self, http: httpx.AsyncClient, part: str) -> float:
        """Seconds until the right verdict; `part` is the body's input as JSON members."""
        self.number += 1
        body = (
            f'{{"request_id":"bench-{self.number}","task_id":"{world.ID}",'
            f'"task_hash":"{self.task_hash}","final_reply":"{world.REPLY}",{part}}}'
        )
        begin = time.perf_counter()
        answer = await http.post("/v1/grade", content=body)
        seconds = time.perf_counter() - begin
        if answer.status_code != 200 or answer.json().get("reward") != 1.0:
            raise Failure(f"a right end was not graded 1: {answer.text[:300]}")
        return seconds


async def _measure(apart: StateDir, domains: Path, rounds: int, workers: int) -> dict[str, Any]:
    settings = {"ENV_SERVER_MAX_EPISODES": "64", "ENV_SERVER_LOG_LEVEL": "warning"}
    options = StackOptions(domains=domains, engine="scripted", env_settings=settings)
    async with _outside(domains, apart.path / "outside") as dsn:
        with Stack(apart, options, lambda line: None) as stack:
            stack.start_env_server()
            stack.prove("bench")
            _start_grader(stack, apart, dsn, workers, "grader")
            keys = apart.secrets()
            doors = Doors(
                stack.address("env-server", "grpc"),
                keys["env_infra"],
                stack.address("grader", "http"),
                keys["grader_client"],
            )
            task_hash, rows = await _right_end(doors, keys["env_grader"])
            bench = _Bench(stack, doors, task_hash, rows, dsn)
            figures = await _all(bench, apart, rounds, workers)
        return figures | _floor(dsn, rows, rounds)


async def _all(bench: _Bench, apart: StateDir, rounds: int, workers: int) -> dict[str, Any]:
    part = {
        "dsn": f'"dsn":{json_format.dumps(_reader(bench.dsn))}',
        "state": f'"state":{bench.rows}',
    }
    fewer = max(10, rounds // 10)
    async with Client(bench.doors, reuse=True) as client, _http(bench.doors) as http:
        single: list[float] = []
        for _ in range(rounds):
            async with _sealed(client, bench.doors, 1) as (reference,):
                single.append(await bench.grade(http, reference))
        together = busy = 0.0
        for _ in range(max(2, rounds // SEALED)):
            async with _sealed(client, bench.doors, SEALED) as references:
                before = bench.cpu_seconds()
                together += await _together(bench, http, references)
                busy += bench.cpu_seconds() - before
        by_dsn, dsn_cpu = await _repeated(bench, http, part["dsn"], fewer)
        by_json, json_cpu = await _repeated(bench, http, part["state"], fewer)
        cold = []
        for number in range(COLD_STARTS):
            name = f"grader-{number}"
            _start_grader(bench.stack, apart, bench.dsn, 1, name)
            fresh = Doors(
                bench.doors.env_server,
                bench.doors.env_token,
                bench.stack.address(name, "http"),
                bench.doors.grader_token,
            )
            async with _http(fresh) as first:
                async with _sealed(client, bench.doors, 1) as (reference,):
                    cold.append(await bench.grade(first, reference))
    graded = SEALED * max(2, rounds // SEALED)
    return {
        "grade_p50_ms": percentile(single, 50),
        "grade_p99_ms": percentile(single, 99),
        "grades_per_second": round(graded / together, 3),
        # Of the grader's own processes; less noisy than time on a machine that others use.
        "grade_cpu_ms": round(1000 * busy / graded, 3),
        "by_dsn_cpu_ms": dsn_cpu,
        "by_json_cpu_ms": json_cpu,
        "cold_p50_ms": percentile(sorted(cold), 50),
        # The first reads a world that it has not seen.
        "by_dsn_p50_ms": percentile(by_dsn[1:], 50),
        "by_dsn_p99_ms": percentile(by_dsn[1:], 99),
        "by_dsn_first_ms": percentile(by_dsn[:1], 50),
        "by_json_p50_ms": percentile(by_json[1:], 50),
        "by_json_p99_ms": percentile(by_json[1:], 99),
        "by_json_first_ms": percentile(by_json[:1], 50),
        "rounds": rounds,
        "workers": workers,
        "world": {"tables": world.TABLES, "json_mb": round(len(bench.rows) / 1e6, 3)},
    }


async def _repeated(
    bench: _Bench, http: httpx.AsyncClient, part: str, count: int
) -> tuple[list[float], float]:
    """Seconds of a first grading and of `count` more, and CPU milliseconds of one of these."""
    seconds = [await bench.grade(http, part)]
    before = bench.cpu_seconds()
    seconds += [await bench.grade(http, part) for _ in range(count)]
    return seconds, round(1000 * (bench.cpu_seconds() - before) / count, 3)


async def _together(bench: _Bench, http: httpx.AsyncClient, references: Sequence[str]) -> float:
    left = iter(references)

    async def worker() -> None:
        for reference in left:
            await bench.grade(http, reference)

    begin = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return time.perf_counter() - begin


def _http(doors: Doors) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=doors.grader,
        headers={"authorization": f"Bearer {doors.grader_token}"},
        timeout=60,
        trust_env=False,
    )


@asynccontextmanager
async def _sealed(client: Client, doors: Doors, count: int) -> AsyncIterator[list[str]]:
    """References to sealed episodes with the right end."""
    stub, metadata, channel = _env_server(doors.env_server, doors.env_token)
    held, references = [], []
    for _ in range(count):
        episode = await client.open()
        await client.call_all(episode, world.CALLS, [])
        request = pb.SealEpisodeRequest(episode_id=episode.episode_id)
        await stub.SealEpisode(request, metadata=metadata)
        reference = {"env_server": episode.env_server, "episode_id": episode.episode_id}
        references.append(f'"episode":{json_format.dumps(reference)}')
        held.append(episode)
    try:
        yield references
    finally:
        for episode in held:
            await client.close(episode)
        await channel.close()


async def _right_end(doors: Doors, grader_token: str) -> tuple[str, str]:
    """The task's hash, and the whole right end as JSON text of {table: rows}."""
    stub, metadata, channel = _env_server(doors.env_server, doors.env_token)
    _, reads = grpc.connect(doors.env_server, grader_token)
    async with Client(doors, reuse=False) as client:
        episode = await client.open()
        await client.call_all(episode, world.CALLS, [])
        sealed = pb.SealEpisodeRequest(episode_id=episode.episode_id)
        await stub.SealEpisode(sealed, metadata=metadata)
        tables: dict[str, list[str]] = {}
        for names in ((), None):
            request = pb.ReadEvidenceRequest(
                episode_id=episode.episode_id, whole_tables=list(tables) if names is None else []
            )
            async for chunk in stub.ReadEvidence(request, metadata=reads):
                for digest in chunk.header.tables:
                    tables.setdefault(digest.table, [])
                if chunk.rows.table:
                    tables[chunk.rows.table] += chunk.rows.rows_json
        await client.close(episode)
    await channel.close()
    parts = (f'"{name}":[{",".join(rows)}]' for name, rows in tables.items())
    return episode.task.ref.task_hash, "{" + ",".join(parts) + "}"


def _env_server(address: str, token: str) -> tuple[Any, Any, Any]:
    channel, metadata = grpc.connect(address, token)
    return env_service_pb2_grpc.EnvServiceStub(channel), metadata, channel


def _start_grader(stack: Stack, apart: StateDir, dsn: str, workers: int, name: str) -> None:
    """The grader of the stack's specification, with this bench's database allowed."""
    password, targets = apart.path / "reader.password", apart.path / "targets.yaml"
    password.write_text(PASSWORD)
    target = {
        "host": conninfo_to_dict(dsn)["host"],
        "databases": ["bench"],
        "user": READER,
        "password_file": str(password),
    }
    targets.write_text(json_format.dumps({"targets": [target]}))
    spec = service_specs.grader(apart, stack.options)
    ready = apart.ready(name)
    more = {
        "GRADER_DSN_TARGETS_FILE": str(targets),
        "GRADER_WORKERS": str(workers),
        "GRADER_STATE_DIR": str(apart.path / f"records-{name}"),
        "GRADER_READY_FILE": str(ready),
        "GRADER_LOG_LEVEL": "warning",
    }
    child = stack.children.start(
        name, spec.argv, env=spec.env | more, log=apart.log(name), ready_file=ready
    )
    stack.children.wait_ready(child, SERVICE_SECONDS)


@asynccontextmanager
async def _outside(domains: Path, state: Path) -> AsyncIterator[str]:
    """A Postgres of its own that holds the right end; the superuser's DSN of it."""
    logging.configure("bench", "warning")
    server = await EmbeddedPostgres.start(
        find_postgres(),
        state_dir=state,
        memory_dir=Path("/dev/shm"),
        max_connections=20,
        user="nobody",
    )
    try:
        with psycopg.connect(server.conninfo, autocommit=True) as conn:
            conn.execute("CREATE DATABASE bench")
            conn.execute(f"CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}'")
        dsn = make_conninfo(server.conninfo, dbname="bench", options=SESSION)
        with psycopg.connect(dsn, autocommit=True) as conn:
            for name in ("schema.sql", "seed.sql"):
                conn.execute((domains / "bench/world" / name).read_bytes())
            for tool, arguments in world.CALLS:
                conn.execute(world.TOOL_SQL[tool], arguments)  # pyright: ignore[reportArgumentType, reportCallIssue]
            conn.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {READER}")
            conn.execute("VACUUM ANALYZE")
        yield dsn
    finally:
        await server.stop()


def _reader(dsn: str) -> str:
    return make_conninfo("", host=conninfo_to_dict(dsn)["host"], dbname="bench", user=READER)


def _floor(dsn: str, rows: str, rounds: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "envfarm_cli.bench.grader_floor", dsn, str(rounds)],
        input=rows,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Failure(f"the floor failed: {done.stderr.strip().splitlines()[-1]}")
    return {name: round(value, 3) for name, value in json_format.loads(done.stdout).items()}
