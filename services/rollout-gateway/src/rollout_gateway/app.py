"""Wiring of the process, and nothing else."""

import asyncio
import time
from functools import partial
from typing import Any

import redis.asyncio as redis
from envfarm.sampling import Sampling
from envfarm.v1.gateway_service_pb2_grpc import add_GatewayServiceServicer_to_server
from envfarm_common import grpc, http, lifecycle, logging, tracing
from envfarm_common.metrics import Instruments
from envfarm_common.settings import redacted

from rollout_gateway.api import add_routes
from rollout_gateway.backlog import BacklogGauge
from rollout_gateway.chat.render import Renderer
from rollout_gateway.chat.vocabulary import Vocabulary
from rollout_gateway.chat_endpoint import ChatEndpoint
from rollout_gateway.discovery import Discovery
from rollout_gateway.engine import Engine
from rollout_gateway.env_registry import registered
from rollout_gateway.environment import Environment
from rollout_gateway.files import lock_folder
from rollout_gateway.fleet import Fleet
from rollout_gateway.grading import Grader
from rollout_gateway.group_run import GroupParts, tell_from_zero
from rollout_gateway.job_context import Rendering
from rollout_gateway.jobs import Jobs
from rollout_gateway.ledger import RunLedger
from rollout_gateway.policy import Policy
from rollout_gateway.pool import Parking
from rollout_gateway.pressure import Bounds, PressureGauge
from rollout_gateway.publish import Publisher
from rollout_gateway.readiness import Caps
from rollout_gateway.rollout import Parts
from rollout_gateway.rpc import INFRASTRUCTURE, GatewayService
from rollout_gateway.scheduler import Scheduler, StreamRules
from rollout_gateway.seats import Seats
from rollout_gateway.settings import Settings
from rollout_gateway.stages import Stages
from rollout_gateway.store import FolderStore, RedisStore
from rollout_gateway.user import Users
from rollout_gateway.user_model import UserModel, UserModelSettings
from rollout_gateway.versions import Versions

log = logging.get(__name__)


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; jobs that run then go on at the next start."""
    stop = lifecycle.stop_event()
    tracing.configure("rollout-gateway", settings.otlp_endpoint)
    lock = lock_folder(settings.state_dir)
    instruments = Instruments("rollout-gateway")
    tell_from_zero(instruments)
    parts = _rollout_parts(settings, instruments)
    versions = Versions(parts.policy, settings.state_dir / "versions.json", instruments)
    client = _redis(settings)
    jobs = Jobs(settings.state_dir / "jobs")
    groups = _group_parts(settings, parts, versions, client)
    scheduler = Scheduler(groups, jobs, _caps(settings), _stream_rules(settings))
    infra_token = settings.infra_token.get_secret_value()
    tokens = {INFRASTRUCTURE: infra_token}
    service = GatewayService(
        parts.policy, versions, scheduler, tokens, parts.sampling.hash, parts.chat
    )

    app = http.create_app("envfarm rollout-gateway", instruments, lambda: not stop.is_set())
    discovery = Discovery(
        parts.environment, settings.env_servers, registered=partial(registered, client)
    )
    await discovery.refresh()
    make_engine = partial(_engine, settings, parts.sampling)
    fleet = Fleet(parts.policy, parts.environment, discovery, make_engine)
    add_routes(app, service, scheduler, fleet, infra_token, stop)
    web = http.HttpServer(app, settings.host, settings.http_port)
    rpc, port = await grpc.serve(
        f"{settings.host}:{settings.grpc_port}",
        lambda server: add_GatewayServiceServicer_to_server(service, server),
    )
    await web.start()
    addresses = {"http": f"{settings.host}:{web.port}", "grpc": f"{settings.host}:{port}"}
    bounds = Bounds(
        least=min(settings.least_concurrency, settings.concurrency), most=settings.concurrency
    )
    gauge = PressureGauge(parts.policy, groups.seats, instruments, bounds)
    backlog = BacklogGauge(groups.publisher, jobs, settings.undelivered_groups, instruments)
    supervisor = asyncio.gather(
        parts.policy.supervise(), gauge.run(), backlog.run(), discovery.run()
    )
    scheduler.start()
    log.info("serving", **addresses, settings=redacted(settings))
    lifecycle.write_ready(settings.ready_file, **addresses)
    try:
        await _wait(stop, supervisor)
    finally:
        await rpc.stop(grace=1.0)
        await scheduler.close()
        supervisor.cancel()
        await asyncio.gather(supervisor, return_exceptions=True)
        await web.stop()
        await parts.environment.close()
        await parts.grader.close()
        await parts.policy.close()
        await parts.users.close()
        if parts.chat is not None:
            await parts.chat.close()
        await client.aclose()
        jobs.close()
        lock.close()
        lifecycle.remove_ready(settings.ready_file)


async def _wait(stop: asyncio.Event, supervisor: asyncio.Future[Any]) -> None:
    """Until the stop; a supervisor that dies takes the process down, loudly."""
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait([stopped, supervisor], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if supervisor.done():
        supervisor.result()


def _engine(settings: Settings, sampling: Sampling, url: str) -> Engine:
    return Engine(url, settings.model_name, sampling, settings.generate_seconds)


def _rollout_parts(settings: Settings, instruments: Instruments) -> Parts:
    vocabulary = Vocabulary(settings.tokenizer_dir)
    sampling = Sampling(
        temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p
    )
    engines = [_engine(settings, sampling, url) for url in settings.engines]
    return Parts(
        environment=Environment(
            [],
            settings.env_token.get_secret_value(),
            call_seconds=settings.call_seconds,
            lease_seconds=settings.lease_seconds,
            slot_mode=settings.slot_mode,
        ),
        policy=Policy(engines, vocabulary.stops, settings.update_mode),
        grader=Grader(
            settings.grader, settings.grader_token.get_secret_value(), settings.grade_seconds
        ),
        users=Users(settings.domains_dir, settings.users, _user_model(settings)),
        renderer=Renderer(vocabulary, settings.chat_format, settings.reasoning),
        sampling=sampling,
        chat=_chat(settings),
        stages=Stages(instruments),
        instruments=instruments,
        attempt_seconds=settings.attempt_seconds,
    )


def _chat(settings: Settings) -> ChatEndpoint | None:
    if settings.chat_url is None:
        return None
    return ChatEndpoint(
        url=settings.chat_url,
        model=settings.chat_model,
        key=settings.chat_key.get_secret_value(),
        parameters=settings.chat_parameters,
        limit_field=settings.chat_limit_field,
        seconds=settings.chat_seconds,
    )


def _user_model(settings: Settings) -> UserModel | None:
    if settings.users != "model" or settings.user_url is None:
        return None
    return UserModel(
        UserModelSettings(
            url=settings.user_url,
            model=settings.user_model,
            key=settings.user_key.get_secret_value(),
            temperature=settings.user_temperature,
            seconds=settings.user_seconds,
        )
    )


def _redis(settings: Settings) -> redis.Redis:
    return redis.Redis.from_url(
        settings.redis_url.get_secret_value(),
        socket_connect_timeout=5,
        socket_timeout=30,
    )


def _group_parts(
    settings: Settings, parts: Parts, versions: Versions, client: redis.Redis
) -> GroupParts:
    store = FolderStore(settings.store_dir) if settings.store_dir else RedisStore()
    return GroupParts(
        rollouts=parts,
        versions=versions,
        publisher=Publisher(client, store, require_aof=settings.require_aof),
        ledger=RunLedger(client),
        rendering=Rendering.of(parts.renderer, settings.tokenizer_dir),
        seats=Seats(settings.concurrency),
        attempts_per_slot=settings.attempts_per_slot,
        max_version_spread=settings.max_version_spread,
        clock=time.time,
    )


def _caps(settings: Settings) -> Caps:
    return Caps(
        undelivered_groups=settings.undelivered_groups,
        undelivered_bytes=settings.undelivered_bytes,
    )


def _stream_rules(settings: Settings) -> StreamRules:
    parking = Parking(
        after=settings.park_after,
        updates=settings.park_updates,
        per_update=settings.task_replacements,
    )
    return StreamRules(parking=parking, oversampling=settings.oversampling)
