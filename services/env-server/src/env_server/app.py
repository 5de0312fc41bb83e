"""Wiring: settings → catalog, Postgres, episodes, the three doors; and the way down again."""

import asyncio
import contextlib
import socket

from envfarm.v1.env_service_pb2_grpc import add_EnvServiceServicer_to_server
from envfarm_common import grpc as grpc_setup
from envfarm_common import http, lifecycle, logging, tracing
from envfarm_common.metrics import Instruments
from envfarm_common.settings import redacted
from envfarm_common.worker_metrics import WorkerInstruments
from starlette.routing import Route

from env_server import backend, draining, mcp, world
from env_server.belongings import Outfitter
from env_server.cancel import cancel_all
from env_server.episode_files import FileRoom
from env_server.episodes import Episodes
from env_server.mcp import McpDoor
from env_server.registry import announced
from env_server.rpc import GRADER, INFRASTRUCTURE, EnvService
from env_server.server_room import ServerRoom
from env_server.settings import Settings
from env_server.supervision import Supervision, connections_needed

log = logging.get(__name__)


def reachable(host: str) -> str:
    """The address by which others reach one that listens on `host`."""
    return socket.gethostbyname(socket.gethostname()) if host in ("0.0.0.0", "::") else host


async def serve(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT; an error of ours ends it with everything released."""
    stop = lifecycle.stop_event()
    tracing.configure("env-server", settings.otlp_endpoint)
    log.info("starting", **redacted(settings))
    catalog = world.load_catalog(settings.domains_dir)
    crew = settings.crew_dir
    instruments = WorkerInstruments("env-server", crew) if crew else Instruments("env-server")
    worlds = catalog.worlds.values()
    file_room = FileRoom(settings.state_dir) if any(item.file_limits for item in worlds) else None
    server_room = _server_room(settings) if any(item.servers for item in worlds) else None
    episodes = Episodes(
        catalog,
        instruments,
        max_episodes=settings.max_episodes,
        lease_seconds=settings.lease_seconds,
        max_lease_seconds=settings.max_lease_seconds,
        call_deadline_seconds=settings.call_deadline_seconds,
        outfitter=Outfitter(file_room, server_room),
    )
    tokens = {
        INFRASTRUCTURE: settings.infra_token.get_secret_value(),
        GRADER: settings.grader_token.get_secret_value(),
    }
    host = settings.advertise_host or reachable(settings.host)
    door = McpDoor(episodes, frozenset(tokens.values()))
    app = http.create_app("env-server", instruments, lambda: episodes.is_ready)
    app.router.routes.append(Route(mcp.PATH, endpoint=door))
    supervision = Supervision(
        settings,
        backend.choose(
            settings,
            connections_needed(settings, catalog),
            gives_dsns=any(item.dsn_connections for item in worlds),
        ),
        episodes,
        instruments,
    )
    async with contextlib.AsyncExitStack() as down:
        if file_room:
            down.callback(file_room.close)
        if server_room:
            down.callback(server_room.close)
        web = http.HttpServer(app, settings.host, settings.http_port, shared=settings.is_worker)
        down.push_async_callback(supervision.stop)
        await supervision.start()
        await down.enter_async_context(door.run())
        await web.start()
        down.push_async_callback(web.stop)
        service = EnvService(episodes, tokens, f"http://{host}:{web.port}{mcp.PATH}")
        server, port = await grpc_setup.serve(
            f"{settings.host}:{settings.grpc_port}",
            lambda server: add_EnvServiceServicer_to_server(service, server),
            so_reuseport=int(settings.is_worker),
        )
        service.address = f"{host}:{port}"
        down.push_async_callback(server.stop, 2.0)
        down.push_async_callback(episodes.drain)
        down.push_async_callback(draining.until_empty, episodes, settings.drain_seconds)
        if settings.redis_url:
            url = settings.redis_url.get_secret_value()
            await down.enter_async_context(
                announced(url, service.address, lambda: episodes.is_ready)
            )
        supervising = asyncio.create_task(supervision.run())
        lifecycle.write_ready(
            settings.ready_file, http=f"http://{host}:{web.port}", grpc=service.address
        )
        down.callback(lifecycle.remove_ready, settings.ready_file)
        log.info("ready", http=web.port, grpc=port, tasks=len(catalog.tasks))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({stopping, supervising}, return_when=asyncio.FIRST_COMPLETED)
        if supervising.done():
            supervising.result()
        await cancel_all([stopping, supervising])
    log.info("stopped")


def _server_room(settings: Settings) -> ServerRoom:
    return ServerRoom(settings.state_dir, settings.account_numbers(), settings.server_starts)
