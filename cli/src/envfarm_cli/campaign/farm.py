"""The services that a campaign drives: a running stack's, or those of a private stack."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import httpx
import redis
from envfarm.task_pages import every_task
from envfarm.v1 import (
    env_service_pb2,
    env_service_pb2_grpc,
    gateway_service_pb2,
    policy_pb2,
    task_pb2,
)

from envfarm_cli import interrupts, service_specs, state_dir
from envfarm_cli.children import Child, ChildSet, died
from envfarm_cli.failure import BadInput, ChildFailed, NotRunning, as_failure
from envfarm_cli.gateway_client import CALL_SECONDS, GatewayClient
from envfarm_cli.launching import HERE, Launch
from envfarm_cli.learner_config import Overrides, merge, write_config
from envfarm_cli.scripted_policy import CONSTANT_LOGPROB
from envfarm_cli.service_specs import StackOptions
from envfarm_cli.stack import Stack
from envfarm_cli.state_dir import StackState, StateDir

ANNOUNCE_SECONDS = 300
DEATH_SECONDS = 2.0
"""Within this a process that ended is known to have ended."""
UNANSWERED = (grpc.RpcError, httpx.HTTPError, redis.ConnectionError, ConnectionError)


@dataclass(kw_only=True)
class Farm:
    """Doors, folders and secrets; the services themselves are somebody else's."""

    gateway: GatewayClient
    gateway_address: str
    gateway_http: str
    env_server: str
    """gRPC address of the env-server."""
    redis_url: str
    records: Path
    """The gateway's state folder."""
    model: Path
    engine: service_specs.Engine
    state: StateDir
    check: Callable[[], None]
    """Raises ChildFailed when a service has died."""
    children: ChildSet = field(default_factory=ChildSet)
    """Processes that the campaign itself starts, such as a learner."""

    def tasks(self) -> dict[str, task_pb2.Task]:
        """All tasks that the env-server serves, by id."""
        metadata = [("authorization", f"Bearer {self.state.secrets()['env_infra']}")]
        with grpc.insecure_channel(self.env_server) as channel:
            stub = env_service_pb2_grpc.EnvServiceStub(channel)

            async def ask(
                request: env_service_pb2.ListTasksRequest,
            ) -> env_service_pb2.ListTasksResponse:
                return stub.ListTasks(request, metadata=metadata, timeout=CALL_SECONDS)

            return asyncio.run(every_task(ask))

    def in_service(self) -> policy_pb2.PolicyVersion | None:
        now = self.gateway.status()
        return now.in_service if now.HasField("in_service") else None

    def chat_endpoint(self) -> gateway_service_pb2.ChatEndpointStatus:
        """BadInput when the gateway has none."""
        now = self.gateway.status()
        if not now.HasField("chat"):
            raise BadInput(
                "the gateway has no chat endpoint",
                hint="set GATEWAY_CHAT_URL, GATEWAY_CHAT_MODEL and GATEWAY_CHAT_KEY where you start it",
            )
        return now.chat

    def start_learner(
        self,
        config: Path,
        base: Path,
        overrides: Overrides,
        log: Path,
        launch: Launch = HERE,
    ) -> Child:
        """Start the learner's ranks by `base`, written with our addresses to `config`."""
        port = service_specs.free_port()
        addresses: Overrides = {
            "metrics": {"host": "127.0.0.1", "port": port},
            "stream": {"redis_url": self.redis_url},
            "gateway": {"address": self.gateway_address},
        }
        write_config(config, base, merge(overrides, addresses))
        spec = service_specs.learner(self.state, config, launch)
        child = self.children.start(spec.name, spec.argv, env=spec.env, log=log, cwd=config.parent)
        self.state.add_guest(
            state_dir.ProcessRecord(
                name=spec.name,
                pid=child.identity.pid,
                start=child.identity.start,
                log=str(log),
                http=f"http://127.0.0.1:{port}",
            )
        )
        return child

    def wait_for(self, child: Child, tick: Callable[[], None] = lambda: None) -> None:
        """Until `child` ends by itself; ChildFailed when it, or a service, fails."""

        def both() -> None:
            self.check()
            tick()

        if self.children.wait_end(child, both):
            raise died(child, "before its work was done")

    def announce_constant(self, run_id: str, model: Path) -> None:
        """Version 0 for the scripted policy, which answers one log-probability to everything."""
        self.gateway.announce(
            policy_pb2.WeightUpdate(
                version=policy_pb2.PolicyVersion(run_id=run_id, number=0, weights_hash="00" * 32),
                path=str(model.absolute()),
                probe=policy_pb2.ProbePrompt(
                    token_ids=[5, 6, 7], logprobs=[CONSTANT_LOGPROB] * 2, tolerance=1e-6
                ),
                learner_epoch=0,
            )
        )


@contextmanager
def running_farm(state: StateDir) -> Iterator[Farm]:
    """The stack that `envfarm up` left running in `state`; NotRunning when there is none."""
    now = state.read()
    if now is None or not now.is_live or now.phase not in (state_dir.READY, state_dir.DEGRADED):
        raise NotRunning(
            f"no stack serves in {state.path}",
            hint="`envfarm up` starts one; `--stack own` takes a private one for this campaign",
        )
    gateway, env_server = now.find("gateway"), now.find("env-server")
    if gateway is None or env_server is None or not now.model:
        raise BadInput(f"{state.state_file} names no gateway", hint="`envfarm down`, `envfarm up`")

    def check() -> None:
        later = state.read()
        if later is None or not later.is_live:
            raise ChildFailed(
                f"the stack in {state.path} has ended", hint="`envfarm up`, and again"
            )
        if later.phase == state_dir.DEGRADED:
            raise ChildFailed(later.message, hint=later.hint)

    with (
        naming_the_dead(check),
        GatewayClient(gateway.grpc, state.secrets()["gateway_infra"]) as client,
        ChildSet() as own,
    ):
        yield Farm(
            gateway=client,
            gateway_address=gateway.grpc,
            gateway_http=gateway.http,
            env_server=env_server.grpc,
            redis_url=state.redis_url(),
            records=Path(now.records),
            model=Path(now.model),
            engine=_engine(now),
            state=state,
            check=check,
            children=own,
        )


@contextmanager
def naming_the_dead(check: Callable[[], None], seconds: float = DEATH_SECONDS) -> Iterator[None]:
    """Where a call got no answer because a process had ended, ChildFailed that names the process.

    `check` raises it; without this whoever hears the silence first would only say that.
    """
    try:
        yield
    except UNANSWERED as error:
        deadline = time.monotonic() + seconds
        while isinstance(as_failure(error), NotRunning) and time.monotonic() < deadline:
            try:
                check()
            except ChildFailed as death:
                raise death from error
            time.sleep(0.05)
        raise


@contextmanager
def own_stack(
    state: StateDir, options: StackOptions, say: Callable[[str], None]
) -> Iterator[Stack]:
    """A private stack, not started yet; everything of it ends with the block."""
    state.make()
    lock = state.lock()
    try:
        for name in state.sweep():
            say(f"{name}: was left over by a run that had been killed; stopped")
        with Stack(state, options, say) as stack, naming_the_dead(stack.fail_when_one_died):
            yield stack
    finally:
        with interrupts.final():
            state.forget()
            state.unlock(lock)


@contextmanager
def farm_of(stack: Stack) -> Iterator[Farm]:
    """The doors of a private stack whose gateway serves."""
    assert stack.model
    address = stack.address("gateway", "grpc")
    with GatewayClient(address, stack.state.secrets()["gateway_infra"]) as client:
        with ChildSet() as own:
            yield Farm(
                gateway=client,
                gateway_address=address,
                gateway_http=stack.address("gateway", "http"),
                env_server=stack.address("env-server", "grpc"),
                redis_url=stack.redis_url,
                records=stack.records,
                model=stack.model,
                engine=stack.options.engine,
                state=stack.state,
                check=stack.fail_when_one_died,
                children=own,
            )


@contextmanager
def private_farm(
    state: StateDir, options: StackOptions, say: Callable[[str], None]
) -> Iterator[Farm]:
    """A private stack, started; ended with the block."""
    with own_stack(state, options, say) as stack:
        stack.start()
        with farm_of(stack) as farm:
            yield farm


def _engine(now: StackState) -> service_specs.Engine:
    return now.engine  # pyright: ignore[reportReturnType]
