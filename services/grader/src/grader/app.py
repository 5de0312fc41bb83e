"""Wiring of the serving process, and nothing else."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from envfarm.v1.grader_service_pb2_grpc import add_GraderServiceServicer_to_server
from envfarm_common import grpc, http, lifecycle, logging, tracing
from envfarm_common.metrics import Instruments
from envfarm_common.settings import redacted

from grader.allow_list import AllowList
from grader.api import add_routes
from grader.check_run import make_judge, make_runner
from grader.checkset import load_checkset
from grader.claims import Claims
from grader.door import GradeDoor, Sources
from grader.dsn_targets import load_targets
from grader.evidence_client import EvidenceClient
from grader.golden import GoldenStore
from grader.record_store import RecordStore
from grader.replay import Replay
from grader.retention import Policy, sweep
from grader.rpc import GraderService
from grader.scratch import Scratch
from grader.settings import Settings
from grader.tokens import load_tokens
from grader.world_base import BaseStore

log = logging.get(__name__)

SWEEP_SECONDS = 600.0
GRACE_SECONDS = 5.0


async def serve(
    settings: Settings, instruments: Instruments | None = None, *, is_worker: bool = False
) -> None:
    """Serve until SIGTERM or SIGINT; a worker shares its ports with others."""
    stop = lifecycle.stop_event()
    tracing.configure("grader", settings.otlp_endpoint)
    instruments = instruments or Instruments("grader")
    tokens = load_tokens(settings.client_token.get_secret_value(), settings.tokens_file)
    async with _opened(settings, instruments) as (door, tasks):
        app = http.create_app("envfarm grader", instruments, lambda: not stop.is_set())
        add_routes(app, door, tokens, settings.max_body_bytes)
        web = http.HttpServer(app, settings.host, settings.http_port, shared=is_worker)
        rpc, grpc_port = await grpc.serve(
            f"{settings.host}:{settings.grpc_port}",
            lambda s: add_GraderServiceServicer_to_server(GraderService(door, tokens), s),
            so_reuseport=int(is_worker),
            max_receive_message_length=settings.max_body_bytes,
        )
        await web.start()
        doors = {"http": f"{settings.host}:{web.port}", "grpc": f"{settings.host}:{grpc_port}"}
        log.info("serving", **doors, tasks=tasks, settings=redacted(settings))
        lifecycle.write_ready(settings.ready_file, **doors)
        try:
            await stop.wait()
        finally:
            await asyncio.gather(web.stop(), rpc.stop(GRACE_SECONDS))
            lifecycle.remove_ready(settings.ready_file)


@contextlib.asynccontextmanager
async def _opened(
    settings: Settings, instruments: Instruments
) -> AsyncIterator[tuple[GradeDoor, int]]:
    """What answers, with everything it leans on; and the number of its tasks."""
    checkset = load_checkset(settings.domains_dir)
    judge = make_judge(settings)
    async with contextlib.AsyncExitStack() as stack:
        folder = settings.state_dir or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="envfarm-grader-"))
        )
        store = RecordStore(folder, keep_evidence=settings.keep_evidence)
        claims = Claims(folder / "claims")
        stack.callback(claims.close)
        source = EvidenceClient(
            settings.evidence_token.get_secret_value(), settings.evidence_timeout_seconds
        )
        stack.push_async_callback(source.close)
        scratch = Scratch()
        stack.push_async_callback(scratch.close)
        if judge:
            stack.push_async_callback(judge.close)
        policy = Policy(settings.keep_days, settings.keep_bytes)
        sweeping = asyncio.create_task(_sweep(folder, policy))
        stack.callback(sweeping.cancel)
        bases = BaseStore(settings.golden_dir)
        sources = Sources(
            source,
            AllowList(settings.env_servers),
            load_targets(settings.dsn_targets_file),
            scratch,
            bases,
            settings.database_timeout_seconds,
        )
        door = GradeDoor(
            checkset,
            GoldenStore(settings.golden_dir),
            sources,
            instruments,
            make_runner(checkset, judge, bases),
            store,
            Replay(store, claims, settings.replay_capacity, settings.claim_seconds),
        )
        yield door, len(checkset.task_ids())


async def _sweep(folder: Path, policy: Policy) -> None:
    while True:
        swept = await asyncio.to_thread(sweep, folder, policy)
        if swept.removed:
            log.info("removed old records", removed=swept.removed, kept_bytes=swept.kept_bytes)
        await asyncio.sleep(SWEEP_SECONDS)
