"""Wiring of the serving process, and nothing else."""

from envfarm_common import http, lifecycle, logging
from envfarm_common.metrics import Instruments
from envfarm_common.settings import redacted

from grader.allow_list import AllowList
from grader.api import GradeDoor, add_routes
from grader.check_run import make_judge, make_runner
from grader.checkset import load_checkset
from grader.evidence_client import EvidenceClient
from grader.golden import GoldenStore
from grader.settings import Settings

log = logging.get(__name__)


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = lifecycle.stop_event()
    checkset = load_checkset(settings.domains_dir)
    instruments = Instruments("grader")
    source = EvidenceClient(
        settings.evidence_token.get_secret_value(), settings.evidence_timeout_seconds
    )
    judge = make_judge(settings)
    door = GradeDoor(
        checkset,
        GoldenStore(settings.golden_dir),
        source,
        AllowList(settings.env_servers),
        instruments,
        make_runner(checkset, judge),
        settings.replay_capacity,
    )
    app = http.create_app("envfarm grader", instruments, lambda: not stop.is_set())
    add_routes(app, door.answer, settings.client_token.get_secret_value())
    server = http.HttpServer(app, settings.host, settings.http_port)
    await server.start()
    address = f"{settings.host}:{server.port}"
    log.info("serving", http=address, tasks=len(checkset.task_ids()), settings=redacted(settings))
    lifecycle.write_ready(settings.ready_file, http=address)
    try:
        await stop.wait()
    finally:
        await server.stop()
        await source.close()
        if judge:
            await judge.close()
        lifecycle.remove_ready(settings.ready_file)
