"""`envfarm bench gateway`: whole episodes through the gateway, with a policy that costs nothing."""

import json as json_format
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from envfarm.record_frames import FILE, read_rollouts
from envfarm.v1 import gateway_service_pb2 as wire
from envfarm.v1 import policy_pb2

from envfarm_cli.bench import engine_ratio, world
from envfarm_cli.bench.idle_gap import gaps, p99_ms
from envfarm_cli.bench.live_episodes import counting
from envfarm_cli.bench.processes import cost
from envfarm_cli.commands_stack import DEFAULT_STATE, JsonOption, StateDirOption
from envfarm_cli.failure import Failure
from envfarm_cli.gateway_client import GatewayClient
from envfarm_cli.output import OK, Output
from envfarm_cli.service_specs import StackOptions, base_env
from envfarm_cli.stack import Stack
from envfarm_cli.state_apart import state_apart
from envfarm_cli.state_dir import StateDir
from rollout_gateway.chat.render import Renderer
from rollout_gateway.chat.vocabulary import Vocabulary

RUN, PROBE = "bench", [5, 9]
GROUP_SIZE = 8
JOB_SECONDS = 600.0
PARTS = ("gateway", "env-server", "grader", "policy")


def gateway(
    episodes: Annotated[int, typer.Option(min=64, help="Episodes with the instant policy.")] = 800,
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes at once.")] = 32,
    engine: Annotated[
        bool,
        typer.Option(
            "--engine/--no-engine",
            help="Also measure tokens a second against [b]vllm bench serve[/b]: minutes.",
        ),
    ] = True,
    pairs: Annotated[int, typer.Option(min=1, help="Interleaved pairs of that comparison.")] = 5,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Measure the gateway: episodes a second beside an instant policy, tokens a second beside vLLM.

    An episode opens, makes 5 tool calls one by one, answers, is sealed, graded and closed; env-server
    and grader are real and run on the same machine. [b]p99_idle_gap_ms[/b] is how long a turn that could
    run waits for its request to reach the engine; [b]live_episodes[/b] the most that were open at once.
    [b]ratio[/b] is what the gateway gets out of a
    vLLM over what vLLM's own benchmark gets out of it: the same lengths, 32 at once, the median of
    interleaved pairs.

    Example: [b]envfarm bench gateway --no-engine --episodes 2000 --json[/b]
    """
    out = Output(json)
    figures: dict[str, Any] = {}
    with state_apart(StateDir(state_dir), "bench") as apart:
        domains = apart.path / "domains"
        domains.mkdir()
        world.write_world(domains)
        with out.console.status("episodes with an instant policy"):
            figures |= instant(apart, domains, episodes, concurrency)
        if engine:
            with out.console.status("tokens beside vLLM's own benchmark"):
                figures |= engine_ratio.measure(apart, domains, pairs, out.say)
    for name, value in figures.items():
        out.say(f"{name:<36}{value!s:>12}")
    if figures["wrong_rewards"]:
        raise Failure(f"{figures['wrong_rewards']} of {episodes} rewards were wrong")
    out.result({"ok": True, **figures})
    return OK


def instant(apart: StateDir, domains: Path, episodes: int, concurrency: int) -> dict[str, Any]:
    settings = {
        "ENV_SERVER_MAX_EPISODES": str(max(64, 2 * concurrency)),
        "ENV_SERVER_READY_LOW": str(concurrency),
        "ENV_SERVER_READY_HIGH": str(concurrency + 8),
        "ENV_SERVER_LOG_LEVEL": "warning",
    }
    ours = {
        "GATEWAY_USERS": "none",
        "GATEWAY_SLOT_MODE": "reuse",
        "GATEWAY_CONCURRENCY": str(concurrency),
        "GATEWAY_LOG_LEVEL": "warning",
    }
    options = StackOptions(
        domains=domains, engine="scripted", env_settings=settings, gateway_settings=ours
    )
    with Stack(apart, options, lambda line: None) as stack:
        model = stack.make_model()
        stack.start_valkey()
        stack.start_env_server()
        stack.start_grader()
        stack.prove("bench")
        _start_instant_engine(stack, apart, model)
        stack.start_gateway()
        secrets = apart.secrets()
        with (
            GatewayClient(stack.address("gateway", "grpc"), secrets["gateway_infra"]) as client,
            counting(stack.address("env-server", "grpc"), secrets["env_infra"]) as live,
        ):
            announce(client, model, 0, [-1.0])
            _job(client, stack, "warm-up", 8)
            before, started = _costs(stack), time.perf_counter()
            groups = max(1, episodes // GROUP_SIZE)
            status = _job(client, stack, "measured", groups, live.look)
            seconds = time.perf_counter() - started
            after = _costs(stack)
        waited = _gaps(stack, "measured")
    count = groups * GROUP_SIZE
    spent = {name: round((after[name] - before[name]) * 1000 / count, 2) for name in PARTS}
    return {
        "episodes_per_second_instant_policy": round(count / seconds, 1),
        "cpu_ms_per_episode": round(sum(spent.values()), 2),
        "cpu_ms_by_process": spent,
        "p99_idle_gap_ms": p99_ms(waited),
        "live_episodes": live.most,
        "episodes": count,
        "refilled": status.refilled_samples,
        "wrong_rewards": round(count * (1 - status.reward_mean)),
    }


def _gaps(stack: Stack, job_id: str) -> list[float]:
    answer = httpx.get(f"{stack.address('policy', 'http')}/times", timeout=60, trust_env=False)
    assert stack.records is not None
    return gaps(read_rollouts(stack.records / "jobs" / job_id / FILE), answer.json())


def announce(
    client: GatewayClient, model: Path, number: int, logprobs: list[float], ids: list[int] = PROBE
) -> None:
    client.announce(
        policy_pb2.WeightUpdate(
            version=policy_pb2.PolicyVersion(run_id=RUN, number=number, weights_hash="b" * 64),
            path=str(model.resolve()),
            probe=policy_pb2.ProbePrompt(token_ids=ids, logprobs=logprobs, tolerance=1e-3),
            learner_epoch=1,
        )
    )


def _job(
    client: GatewayClient,
    stack: Stack,
    job_id: str,
    groups: int,
    look: Callable[[], None] = lambda: None,
) -> wire.JobStatus:
    """A job to its end; `look` is called about ten times a second meanwhile."""
    client.submit(
        wire.SubmitJobRequest(
            job_id=job_id,
            run_id=RUN,
            kind=wire.JOB_KIND_PROBE,
            task_ids=[world.ID],
            groups_per_task=groups,
            group_size=GROUP_SIZE,
        )
    )

    def tick(_: wire.JobStatus) -> None:
        stack.fail_when_one_died()
        look()

    return client.wait_for_job(job_id, JOB_SECONDS, tick)


def _start_instant_engine(stack: Stack, apart: StateDir, model: Path) -> None:
    renderer = Renderer(Vocabulary(model))
    texts = [renderer.write("", "", [call]) for call in world.CALLS] + [world.REPLY]
    turns = apart.path / "turns.json"
    turns.write_text(json_format.dumps([renderer.assistant(text) for text in texts]))
    ready = apart.ready("policy")
    module = "envfarm_cli.bench.instant_engine"
    child = stack.children.start(
        "policy",
        [sys.executable, "-m", module, "--turns", turns, "--ready-file", ready],
        env=base_env(apart),
        log=apart.log("policy"),
        ready_file=ready,
        cwd=apart.path,
    )
    stack.children.wait_ready(child, 30, tick=stack.fail_when_one_died)


def _costs(stack: Stack) -> dict[str, float]:
    """CPU seconds so far; the env-server's Postgres is the env-server's."""
    found = {}
    for name in PARTS:
        child = stack.find(name)
        assert child is not None
        found[name] = sum(part.cpu_seconds for part in cost(child.identity.pid).values())
    return found
