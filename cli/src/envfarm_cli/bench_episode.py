"""`envfarm bench episode`: open, call, seal, grade, close, through every door, beside the floor."""

import asyncio
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from envfarm.canonical import canonical_json
from envfarm.v1 import env_service_pb2, env_service_pb2_grpc, episode_pb2
from envfarm_common import grpc

from envfarm_cli import bench_floor
from envfarm_cli.bench_floor import Action
from envfarm_cli.commands_stack import (
    DEFAULT_DOMAINS,
    DEFAULT_STATE,
    DomainsOption,
    JsonOption,
    StateDirOption,
)
from envfarm_cli.domain_files import find_task, read_yaml
from envfarm_cli.failure import Failure
from envfarm_cli.output import EXIT_CODES, OK, Output
from envfarm_cli.service_specs import StackOptions
from envfarm_cli.stack import Stack
from envfarm_cli.state_apart import state_apart
from envfarm_cli.state_dir import StateDir

app = typer.Typer(
    no_args_is_help=True,
    help="Figures of this machine, each beside its floor from the same run.",
    epilog=EXIT_CODES,
)
TASK = "orders/refund-approval"
CALLS = 5


@app.callback()
def _bench() -> None:
    """Figures of this machine, each beside its floor from the same run."""


@dataclass(slots=True)
class Timings:
    """Seconds of each single operation, and whether each verdict was the right one."""

    opens: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    seal_grades: list[float] = field(default_factory=list)
    wrong_verdicts: int = 0


@app.command(epilog=EXIT_CODES)
def episode(
    episodes: Annotated[int, typer.Option(min=8, help="Episodes to run.")] = 400,
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes at once.")] = 4,
    domains: DomainsOption = DEFAULT_DOMAINS,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Run whole episodes (5 calls each, every second one wrong on purpose) and time each part.

    The floor is the same tool functions on one open connection of a Postgres of its own, and a
    plain read of all tables where the episode is sealed and graded.

    Example: [b]envfarm bench episode --episodes 1000 --json[/b]
    """
    out, domains = Output(json), domains.absolute()
    golden = _golden(domains)
    with state_apart(StateDir(state_dir), "bench") as apart:
        with out.console.status("starting an env-server and a grader"):
            options = StackOptions(domains=domains, engine="scripted")
            with Stack(apart, options, lambda line: None) as stack:
                stack.start_env_server()
                stack.start_grader()
                stack.prove("orders")
                begin = time.perf_counter()
                timings = asyncio.run(_episodes(stack, golden, episodes, concurrency))
                seconds = time.perf_counter() - begin
        with out.console.status("measuring the floor"):
            floor = bench_floor.measure(
                domains, "orders", golden[0], min(episodes, 400), apart.path / "floor"
            )
    if timings.wrong_verdicts:
        raise Failure(f"{timings.wrong_verdicts} of {episodes} verdicts were wrong")
    figures = {
        "open_p50_ms": _p(timings.opens, 50),
        "open_p99_ms": _p(timings.opens, 99),
        "call_p50_ms": _p(timings.calls, 50),
        "seal_grade_p50_ms": _p(timings.seal_grades, 50),
        "episodes_per_second": round(episodes / seconds, 1),
        "episodes": episodes,
        "concurrency": concurrency,
        "wrong_verdicts": timings.wrong_verdicts,
        "floor": {
            "call_p50_ms": _p(floor.calls, 50),
            "seal_grade_p50_ms": _p(floor.reads, 50),
            "episodes_per_second": round(len(floor.episodes) / sum(floor.episodes), 1),
        },
    }
    for name, value in figures.items():
        if name != "floor":
            beside = figures["floor"].get(name)
            out.say(f"{name:<22}{value:>10}" + (f"   floor {beside}" if beside else ""))
    out.result({"ok": True, **figures})
    return OK


def _golden(domains: Path) -> tuple[list[Action], str]:
    """The golden calls of the task, its first read said again until there are five, and the reply."""
    golden = read_yaml(find_task(domains, TASK).private)["golden"]
    actions = [(action["tool"], action["arguments"]) for action in golden["actions"]]
    return [*[actions[0]] * max(0, CALLS - len(actions)), *actions], golden["reply"].strip()


async def _episodes(
    stack: Stack, golden: tuple[list[Action], str], episodes: int, concurrency: int
) -> Timings:
    keys, timings = stack.state.secrets(), Timings()
    channel, metadata = grpc.connect(stack.address("env-server", "grpc"), keys["env_infra"])
    stub = env_service_pb2_grpc.EnvServiceStub(channel)
    bearer = {"authorization": f"Bearer {keys['grader_client']}"}
    numbers = iter(range(episodes))
    grader = stack.address("grader", "http")
    if not grader.startswith("http"):
        grader = f"http://{grader}"
    async with channel, httpx.AsyncClient(base_url=grader, headers=bearer, timeout=60) as client:

        async def worker() -> None:
            for number in numbers:
                await _episode(stub, metadata, client, golden, number, timings)

        await asyncio.gather(*(worker() for _ in range(concurrency)))
    return timings


async def _episode(
    stub: Any,
    metadata: list[tuple[str, str]],
    client: httpx.AsyncClient,
    golden: tuple[list[Action], str],
    number: int,
    timings: Timings,
) -> None:
    actions, reply = golden
    started = time.perf_counter()
    opened = await stub.OpenEpisode(
        env_service_pb2.OpenEpisodeRequest(
            request_id=f"bench-{number}", task_id=TASK, slot_mode=episode_pb2.SLOT_MODE_FRESH
        ),
        metadata=metadata,
    )
    timings.opens.append(time.perf_counter() - started)
    episode, right = opened.episode, number % 2 == 0
    # A wrong episode stops before its last call, which is the write that matters.
    for index, (tool, arguments) in enumerate(actions if right else actions[:-1]):
        started = time.perf_counter()
        await stub.CallTool(
            env_service_pb2.CallToolRequest(
                episode_id=episode.episode_id,
                request_id=f"{episode.episode_id}.{index}",
                tool=tool,
                arguments_json=canonical_json(arguments),
            ),
            metadata=metadata,
        )
        timings.calls.append(time.perf_counter() - started)
    started = time.perf_counter()
    name = env_service_pb2.SealEpisodeRequest(episode_id=episode.episode_id)
    await stub.SealEpisode(name, metadata=metadata)
    answer = await client.post("/v1/grade", json=_request(episode, number, reply))
    timings.seal_grades.append(time.perf_counter() - started)
    answer.raise_for_status()
    timings.wrong_verdicts += answer.json().get("reward") != float(right)
    name = env_service_pb2.CloseEpisodeRequest(episode_id=episode.episode_id)
    await stub.CloseEpisode(name, metadata=metadata)


def _request(episode: episode_pb2.Episode, number: int, reply: str) -> dict[str, Any]:
    return {
        "request_id": f"bench-{number}",
        "task_id": episode.task.ref.task_id,
        "task_hash": episode.task.ref.task_hash,
        "episode": {"env_server": episode.env_server, "episode_id": episode.episode_id},
        "final_reply": reply,
    }


def _p(seconds: list[float], percent: int) -> float:
    """Percentile in milliseconds, to the microsecond."""
    if len(seconds) < 2:
        return round(seconds[0] * 1000, 3)
    return round(statistics.quantiles(seconds, n=100)[percent - 1] * 1000, 3)
