"""What can befall a stack that is watched: each scene is the cause of alerts, and moves panels."""

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg

from envfarm_cli.scraping import targets
from envfarm_cli.script_file import tool_call, write_plans, write_script
from envfarm_watch.scrape import Sample
from tests.support.alert_watch import LONG_SECONDS, AlertWatch
from tests.support.judge_server import judge_server
from tests.support.polling import wait_until
from tests.support.watched_run import AGREED, TASKS, JobKind, WatchedRun

VISITORS = 30
SCRAPES = 100
CALM_SCRAPES = 9
"""A rate is over six."""
CPU = "process_cpu_seconds_total"
DATABASES = "sum(envfarm_postgres_databases)"
ACTIVE = 'sum(envfarm_postgres_connections{state="active"})'


@dataclass
class Stage:
    """Where scenes are played."""

    run: WatchedRun
    alerts: AlertWatch
    dsn: str
    """Of the Postgres under the episodes."""
    times: dict[str, tuple[float, float]] = field(default_factory=dict)
    """When each scene was played; Unix seconds."""
    scrape_cpu_seconds: dict[str, float] = field(default_factory=dict)
    """What one scrape costs each service."""

    def play(self, name: str) -> None:
        scene = SCENES[name]
        if scene.after_a_calm:
            _seen_by_scrapes(self.run, CALM_SCRAPES)
        start = time.time()
        try:
            scene.play(self)
        finally:
            self.alerts.over(*scene.alerts)
        self.times[name] = (start, time.time())

    @contextmanager
    def gateway_with(self, **settings: str) -> Iterator[None]:
        """The gateway, started again with other settings; the block may change them further."""
        ours = self.run.options.gateway_settings
        before = dict(ours)
        try:
            self.restart_gateway(**settings)
            yield
        finally:
            ours.clear()
            self.restart_gateway(**before)

    def restart_gateway(self, **settings: str) -> None:
        self.run.stack.end("gateway")
        self.run.options.gateway_settings.update(settings)
        self.run.stack.start_gateway()

    @contextmanager
    def held_engine(self) -> Iterator[None]:
        """Generations hang; a learner that publishes would let them go on."""
        self.run.settle()
        self.run.pause_engine()
        try:
            yield
        finally:
            self.run.resume_engine()


@dataclass(frozen=True)
class Scene:
    play: Callable[[Stage], None]
    alerts: tuple[str, ...] = ()
    after_a_calm: bool = False
    """So that no rate tells of an earlier scene when it begins."""


def training(stage: Stage) -> None:
    """A learner that waits, then groups of one log-probability that its own model never gave.

    The learner after it has yet to see a group.
    """
    run, alerts = stage.run, stage.alerts
    alerts.expect("LearnerIdle", cause=run.started_learner)
    alerts.over("LearnerIdle")
    first = run.play(TASKS[0], AGREED)
    wait_until(lambda: run.steps() >= 1, "an update", LONG_SECONDS)
    mismatch = time.time()
    run.wait_for_job(first)
    alerts.expect("MismatchGrows", cause=mismatch)
    for _ in range(20):
        run.wait_for_job(run.play(TASKS[0], AGREED, groups=2))
        if alerts.is_clear("LearnerIdle"):
            break
    run.wait_for("max(envfarm_policy_version)", lambda number: number >= 1, LONG_SECONDS)
    run.stack.end("learner")
    alerts.over("MismatchGrows")
    run.start_learner()
    wait_until(lambda: _told(run, "learner"), "the learner's metrics", LONG_SECONDS)


def evaluation(stage: Stage) -> None:
    run = stage.run
    run.wait_for_job(run.play(*TASKS[:2], kind=JobKind.JOB_KIND_EVAL))
    run.wait_for("max(envfarm_evaluation_share)", lambda share: share > 0, LONG_SECONDS)


def visitors(stage: Stage) -> None:
    """Each service has guests at its door, who ask for its metrics again and again."""
    state = stage.run.state.read()
    assert state is not None
    with ExitStack() as guests, httpx.Client(timeout=60, trust_env=False) as client:
        for job, url in targets(state).items():
            place = urlsplit(url)
            for _ in range(VISITORS):
                guests.enter_context(socket.create_connection((place.hostname, place.port), 30))
            before, *_, after = (_scrape(client, url).total(CPU) for _ in range(SCRAPES))
            assert before is not None and after is not None
            stage.scrape_cpu_seconds[job] = (after - before) / (SCRAPES - 1)
        _seen_by_scrapes(stage.run)


def leak(stage: Stage) -> None:
    """A database of the env-server's own name, which nobody has asked for."""
    run = stage.run
    with psycopg.connect(stage.dsn, autocommit=True) as connection:
        row = connection.execute(
            "SELECT datname FROM pg_database WHERE datname LIKE 'ef\\_%\\_t\\_%'"
        ).fetchone()
        assert row is not None
        stray = f'"ef_{row[0].split("_")[1]}_s_0123456789ab"'
        before = run.value(DATABASES, lambda _: True, LONG_SECONDS)
        # No sweep can drop a template, so it is counted before it goes.
        connection.execute(f"CREATE DATABASE {stray} IS_TEMPLATE true".encode())
        run.wait_for(DATABASES, lambda count: count > before, LONG_SECONDS)
        connection.execute(f"ALTER DATABASE {stray} IS_TEMPLATE false".encode())
        run.wait_for("sum(envfarm_slots_leaked_total)", lambda count: count > 0, LONG_SECONDS)
        stage.alerts.expect("LeakGrowth", cause=time.time())


def stuck_engine(stage: Stage) -> None:
    """Attempts hold their databases, no further one can be cloned, and undone ones do not help."""
    run = stage.run
    stage.alerts.quiet("GroupsStuck", "OpensRefused", "PoolEmpty")
    with stage.gateway_with(GATEWAY_SLOT_MODE="fresh"):
        with stage.held_engine(), psycopg.connect(stage.dsn) as connection:
            connection.execute("LOCK TABLE pg_database IN SHARE ROW EXCLUSIVE MODE")
            job = run.play(*TASKS, kind=JobKind.JOB_KIND_PROBE)
            run.wait_for("sum(envfarm_rollouts_running)", lambda count: count > 0, LONG_SECONDS)
            stage.alerts.expect("GroupsStuck", "OpensRefused", "PoolEmpty", cause=time.time())
            run.wait_for(ACTIVE, lambda count: count > 1, LONG_SECONDS)
        stage.alerts.over("GroupsStuck", "OpensRefused", "PoolEmpty")
        run.wait_for_job(job)
        run.wait_for("sum(rate(envfarm_clone_seconds_count[30s]))", lambda n: n > 0, LONG_SECONDS)


def stopped_env_server(stage: Stage) -> None:
    """Attempts hang in an env-server that stands still, which does not answer a scrape either."""
    run = stage.run
    stage.alerts.quiet("ServiceMissing", "EngineIdle")
    job = run.play(*TASKS, kind=JobKind.JOB_KIND_PROBE, groups=20)
    wait_until(lambda: _told(run, "rollout-gateway", "envfarm_rollouts_running"), "attempts", 60)
    run.signal("env-server", signal.SIGSTOP)
    try:
        stopped = time.time()
        stage.alerts.expect("ServiceMissing", "EngineIdle", cause=stopped)
    finally:
        run.signal("env-server", signal.SIGCONT)
        stage.alerts.over("ServiceMissing", "EngineIdle")
    run.wait_for_job(job)


def learner_away(stage: Stage) -> None:
    """Groups while nobody reads, more than one version may train on when the learner is back."""
    run = stage.run
    stage.alerts.quiet("StreamStale")
    run.stack.end("learner")
    try:
        job = run.play(*TASKS, groups=3)
        run.wait_for("sum(envfarm_undelivered_groups)", lambda n: n > 0, LONG_SECONDS)
        stage.alerts.expect("StreamStale", cause=time.time())
        run.wait_for_job(job)
    finally:
        run.start_learner()
        stage.alerts.over("StreamStale")
    run.wait_for('sum(envfarm_groups_taken_total{fate="stale"})', lambda n: n > 0, LONG_SECONDS)


def out_of_time(stage: Stage) -> None:
    """Attempts that the engine holds up for longer than they may take."""
    run = stage.run
    stage.alerts.quiet("ErrorBurst")
    with stage.gateway_with(GATEWAY_ATTEMPT_SECONDS="3", GATEWAY_ATTEMPTS_PER_SLOT="50"):
        with stage.held_engine():
            job = run.play(*TASKS, kind=JobKind.JOB_KIND_PROBE)
            run.wait_for(
                'sum(envfarm_rollouts_total{status="timed_out"})', lambda n: n > 0, LONG_SECONDS
            )
            stage.alerts.expect("ErrorBurst", cause=time.time())
        stage.alerts.over("ErrorBurst")
        stage.restart_gateway(GATEWAY_ATTEMPT_SECONDS="100")
        run.wait_for_job(job)


def model_users(stage: Stage) -> None:
    """A model plays the users."""
    run = stage.run
    with (
        judge_server(lambda _: "<end>") as model,
        stage.gateway_with(
            GATEWAY_USERS="model", GATEWAY_USER_URL=model.url, GATEWAY_USER_MODEL="canned"
        ),
    ):
        run.wait_for_job(run.play(*TASKS, kind=JobKind.JOB_KIND_PROBE))
        _seen_by_scrapes(run)


def thoughtful_script(path: Path, domains: Path) -> Path:
    """The script of a stack; who does nothing thinks of a call."""
    tasks = json.loads(write_script(path, domains).read_text())["tasks"]
    for plans in (task["plans"] for task in tasks.values()):
        plans[1] = [f"<think>{tool_call('look', {})}</think>{text}" for text in plans[1]]
    return write_plans(path, tasks)


def _scrape(client: httpx.Client, url: str) -> Sample:
    return Sample.read(0, [client.get(f"{url}/metrics").raise_for_status().text])


def _told(run: WatchedRun, job: str, metric: str = CPU) -> bool:
    """Whether the service itself tells now that there is some of it."""
    state = run.state.read()
    assert state is not None
    if (url := targets(state).get(job)) is None:
        return False
    with suppress(httpx.HTTPError), httpx.Client(timeout=10, trust_env=False) as client:
        return bool(_scrape(client, url).total(metric))
    return False


def _seen_by_scrapes(run: WatchedRun, scrapes: int = 3) -> None:
    """Until Prometheus has looked so often at what there is now."""
    end = time.time() + scrapes * run.scrape_seconds
    wait_until(lambda: time.time() >= end, "the scrapes", LONG_SECONDS)


SCENES = {
    "training": Scene(training, ("LearnerIdle", "MismatchGrows")),
    "an evaluation": Scene(evaluation),
    "visitors": Scene(visitors, after_a_calm=True),
    "a leak": Scene(leak, ("LeakGrowth",)),
    "a stuck engine": Scene(stuck_engine, ("GroupsStuck", "OpensRefused", "PoolEmpty")),
    "a stopped env-server": Scene(stopped_env_server, ("ServiceMissing", "EngineIdle")),
    "a learner that is away": Scene(learner_away, ("StreamStale",)),
    "attempts out of time": Scene(out_of_time, ("ErrorBurst",)),
    "users played by a model": Scene(model_users),
}
"""In the order in which they are played: the learner waits for the first one's groups."""
