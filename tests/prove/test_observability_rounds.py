"""Every panel moves when what it shows is provoked, and every alert fires within a minute and clears.

One stack, one Prometheus at its ordinary interval, one provocation after the other.
"""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
import yaml

from envfarm_cli.failure import NotRunning
from envfarm_cli.script_file import tool_call, write_plans, write_script
from envfarm_watch.boards import BOARDS
from envfarm_watch.panel import Panel
from tests.support.given_postgres import given_postgres
from tests.support.judge_server import judge_server
from tests.support.polling import wait_until
from tests.support.proof import write_proof
from tests.support.watched_run import AGREED, TASKS, JobKind, WatchedRun, find_prometheus

pytestmark = pytest.mark.prove

ROOT = Path(__file__).parents[2]
ALERTS = {
    rule["alert"]
    for rule in yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())["groups"][0][
        "rules"
    ]
}
FIRE_SECONDS = 60.0
LONG_SECONDS = 600.0
"""For what a loaded machine takes long over; only how fast an alert fires is held to a limit."""
LATER_SECONDS = 40.0
"""A rate tells of an event for a window."""

PROVOKED_BY = {
    "a stuck engine": [
        "Attempts in flight, by stage",
        "Queues, by what is waited for",
        "Idle",
        "Refused opens, by reason",
        "Ready slots",
        "Running attempts",
        "Running and waiting",
        "Cache in use",
        "Seats for attempts",
    ],
    "attempts that run out of time": [
        "Refills, by cause",
        "Excused attempts, by status",
        "Attempts ended, by status",
    ],
    "a learner that is away": ["Groups that no learner has taken", "Processes that answer"],
    "a leak": ["Leaked databases", "Postgres: databases"],
    "stale groups": ["Taken groups, by fate", "Staleness of the batch"],
    "an evaluation": ["Last evaluation"],
    "users played by a model": ["Tokens of simulated users"],
}
"""Panels of one provocation; training moves the others."""


@dataclass
class Observed:
    """When something was provoked, and when each alert came and went; Unix seconds."""

    scenes: dict[str, tuple[float, float]] = field(default_factory=dict)
    causes: dict[str, float] = field(default_factory=dict)
    fired: dict[str, float] = field(default_factory=dict)
    cleared: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def scene(self, name: str) -> Iterator[None]:
        start = time.time()
        yield
        self.scenes[name] = (start, time.time())


class AlertWatch:
    """Looks every half second which alerts fire."""

    def __init__(self, run: WatchedRun, seen: Observed):
        self._run, self._seen = run, seen
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "AlertWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def quiet(self, *alerts: str) -> None:
        """Wait until none of them fires of an earlier cause."""
        wait_until(
            lambda: not set(alerts) & self._run.prometheus.firing(), f"no {alerts}", LONG_SECONDS
        )

    def expect(self, *alerts: str, cause: float) -> None:
        """Wait until all of them fire; `cause` is when their reason came about."""
        for alert in alerts:
            self._seen.causes[alert] = cause
        late = FIRE_SECONDS * 3
        while waiting := [name for name in alerts if self._seen.fired.get(name, 0) < cause]:
            assert time.time() < cause + late, f"no {waiting} within {late:g} s of its cause"
            time.sleep(0.1)

    def expect_clear(self, *alerts: str) -> None:
        """Wait until all of them, which fired of their cause, have cleared since."""
        wait_until(
            lambda: all(
                self._seen.cleared.get(alert, 0) > self._seen.causes[alert] for alert in alerts
            ),
            f"{alerts} clear: cleared {self._seen.cleared}",
            LONG_SECONDS,
        )

    def _look(self) -> None:
        before: set[str] = set()
        while not self._stop.wait(0.5):
            try:
                now = self._run.prometheus.firing()
            except NotRunning:
                continue
            for alert in now - before:
                self._seen.fired[alert] = time.time()
            for alert in before - now:
                self._seen.cleared[alert] = time.time()
            before = now


def scraped_for(seconds: float) -> None:
    """Prometheus looks at what there is for so long."""
    end = time.time() + seconds
    wait_until(lambda: time.time() >= end, "the scrapes", seconds + 30)


def gateway_with(run: WatchedRun, **settings: str) -> None:
    """The gateway, started again with other settings."""
    run.stack.end("gateway")
    run.options.gateway_settings.update(settings)
    run.stack.start_gateway()


def provoke_training(run: WatchedRun, seen: Observed, alerts: AlertWatch) -> None:
    """A learner that waits, then groups of one log-probability that its own model never gave."""
    waiting_since = run.started_learner
    alerts.expect("LearnerIdle", cause=waiting_since)
    with seen.scene("training"):
        first = run.play(TASKS[0], AGREED)
        wait_until(lambda: run.steps() >= 1, "an update", LONG_SECONDS)
        mismatch = time.time()
        run.wait_for_job(first)
        for _ in range(2):
            run.wait_for_job(run.play(TASKS[0], AGREED))
        alerts.expect("MismatchGrows", cause=mismatch)
        run.wait_for("max(envfarm_policy_version)", lambda number: number >= 1, LONG_SECONDS)
    with seen.scene("an evaluation"):
        run.wait_for_job(run.play(*TASKS[:2], kind=JobKind.JOB_KIND_EVAL))
        run.wait_for("max(envfarm_evaluation_share)", lambda share: share > 0, LONG_SECONDS)


def provoke_stuck_engine(run: WatchedRun, seen: Observed, alerts: AlertWatch, dsn: str) -> None:
    """Attempts hold their databases, no further one can be cloned, and undone ones do not help."""
    gateway_with(run, GATEWAY_SLOT_MODE="fresh")
    run.settle()
    alerts.quiet("GroupsStuck", "OpensRefused", "PoolEmpty")
    with seen.scene("a stuck engine"):
        with psycopg.connect(dsn) as connection:
            connection.execute("LOCK TABLE pg_database IN SHARE ROW EXCLUSIVE MODE")
            run.pause_engine()
            job = run.play(*TASKS, kind=JobKind.JOB_KIND_PROBE)
            run.wait_for("sum(envfarm_rollouts_running)", lambda count: count > 0, LONG_SECONDS)
            alerts.expect("GroupsStuck", "OpensRefused", "PoolEmpty", cause=time.time())
        run.resume_engine()
        run.wait_for_job(job)
    gateway_with(run, GATEWAY_SLOT_MODE="reuse")


def provoke_idle_engine(run: WatchedRun, alerts: AlertWatch) -> None:
    """Attempts hang in a stopped env-server, which does not answer a scrape either."""
    alerts.quiet("ServiceMissing", "EngineIdle")
    run.signal("env-server", signal.SIGSTOP)
    since = time.time()
    job = run.play(*TASKS, kind=JobKind.JOB_KIND_PROBE)
    alerts.expect("ServiceMissing", cause=since)
    alerts.expect("EngineIdle", cause=since)
    run.signal("env-server", signal.SIGCONT)
    run.wait_for_job(job)


def provoke_errors(run: WatchedRun, seen: Observed, alerts: AlertWatch) -> None:
    gateway_with(run, GATEWAY_ATTEMPT_SECONDS="3", GATEWAY_ATTEMPTS_PER_SLOT="50")
    run.settle()
    alerts.quiet("ErrorBurst")
    with seen.scene("attempts that run out of time"):
        run.pause_engine()
        job = run.play(*TASKS, kind=JobKind.JOB_KIND_PROBE)
        run.wait_for(
            'sum(envfarm_rollouts_total{status="timed_out"})', lambda n: n > 0, LONG_SECONDS
        )
        alerts.expect("ErrorBurst", cause=time.time())
        gateway_with(run, GATEWAY_ATTEMPT_SECONDS="100")
        run.resume_engine()
        run.wait_for_job(job)


def provoke_stale_stream(run: WatchedRun, seen: Observed, alerts: AlertWatch) -> None:
    """Groups while nobody reads, more than one version may train on when the learner is back."""
    alerts.quiet("StreamStale")
    with seen.scene("stale groups"):
        with seen.scene("a learner that is away"):
            run.stack.end("learner")
            job = run.play(*TASKS, groups=3)
            run.wait_for("sum(envfarm_undelivered_groups)", lambda n: n > 0, LONG_SECONDS)
            alerts.expect("StreamStale", cause=time.time())
            run.wait_for_job(job)
            run.start_learner()
        run.wait_for('sum(envfarm_groups_taken_total{fate="stale"})', lambda n: n > 0, LONG_SECONDS)


def provoke_leak(run: WatchedRun, seen: Observed, alerts: AlertWatch, dsn: str) -> None:
    with seen.scene("a leak"), psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "SELECT datname FROM pg_database WHERE datname LIKE 'ef\\_%\\_t\\_%'"
        ).fetchone()
        assert row is not None
        instance = row[0].split("_")[1]
        connection.execute(f'CREATE DATABASE "ef_{instance}_s_0123456789ab"')  # pyright: ignore
        run.wait_for("sum(envfarm_slots_leaked_total)", lambda count: count > 0, LONG_SECONDS)
        alerts.expect("LeakGrowth", cause=time.time())


def provoke_users(run: WatchedRun, seen: Observed) -> None:
    with seen.scene("users played by a model"), judge_server(lambda _: "<end>") as model:
        gateway_with(
            run,
            GATEWAY_USERS="model",
            GATEWAY_USER_URL=model.url,
            GATEWAY_USER_MODEL="canned",
        )
        run.wait_for_job(run.play(*TASKS, kind=JobKind.JOB_KIND_PROBE))
        scraped_for(3 * run.scrape_seconds)


def moved(run: WatchedRun, panel: Panel, start: float, end: float) -> bool:
    """Whether a series of the panel changed, came or went in that time."""
    steps = int((end - start) / run.scrape_seconds) + 1
    return any(
        len(line.times) < steps or len(set(line.values)) > 1
        for query in panel.queries
        for line in run.series(query, start, end)
    )


def thoughtful_script(path: Path, domains: Path) -> Path:
    """The script of a stack; who does nothing thinks of a call."""
    tasks = json.loads(write_script(path, domains).read_text())["tasks"]
    for plans in (task["plans"] for task in tasks.values()):
        plans[1] = [f"<think>{tool_call('look', {})}</think>{text}" for text in plans[1]]
    return write_plans(path, tasks)


def panel_report(run: WatchedRun, seen: Observed) -> dict[str, str]:
    """What moved each panel; empty for one that did not move."""
    scene_of = {title: scene for scene, titles in PROVOKED_BY.items() for title in titles}
    report = {}
    for board in BOARDS:
        for panel in board.panels:
            scene = scene_of.get(panel.title, "training")
            start, end = seen.scenes[scene]
            is_moved = moved(run, panel, start - 2 * run.scrape_seconds, end + LATER_SECONDS)
            report[f"{board.uid}: {panel.title}"] = scene if is_moved else ""
    return report


@pytest.mark.timeout(3600)
def test_every_panel_moves_and_every_alert_fires_and_clears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen = Observed()
    monkeypatch.setattr("envfarm_cli.stack.write_script", thoughtful_script)
    with (
        given_postgres() as dsn,
        WatchedRun(
            tmp_path,
            find_prometheus(),
            scrape_seconds=5,
            attempt_seconds=100,
            may_restart=True,
            env_settings={"ENV_SERVER_BACKEND": "server", "ENV_SERVER_DSN": dsn},
            gateway_settings={"GATEWAY_CALL_SECONDS": "100"},
        ) as run,
        AlertWatch(run, seen) as alerts,
    ):
        provoke: list[Callable[[], None]] = [
            lambda: provoke_training(run, seen, alerts),
            lambda: provoke_leak(run, seen, alerts, dsn),
            lambda: provoke_stuck_engine(run, seen, alerts, dsn),
            lambda: provoke_idle_engine(run, alerts),
            lambda: provoke_stale_stream(run, seen, alerts),
            lambda: provoke_errors(run, seen, alerts),
            lambda: provoke_users(run, seen),
        ]
        for provocation in provoke:
            provocation()
        alerts.expect_clear(*ALERTS)
        scraped_for(LATER_SECONDS)
        panels = panel_report(run, seen)
        silent = [
            f"{board.uid}: {panel.title}: {query.legend}"
            for board in BOARDS
            for panel in board.panels
            for query in panel.queries
            if not run.series(query, run.started, time.time())
        ]
    fire = {alert: round(seen.fired[alert] - seen.causes[alert], 1) for alert in seen.causes}
    still = sorted(name for name, moved_by in panels.items() if not moved_by)
    write_proof(
        "observability",
        {
            "panels": len(panels),
            "queries_without_data": silent,
            "panels_moved_by": panels,
            "panels_that_stood_still": still,
            "alert_seconds_from_cause": dict(sorted(fire.items())),
            "alerts_cleared": sorted(seen.cleared),
        },
    )
    assert set(fire) == ALERTS
    assert max(fire.values()) <= FIRE_SECONDS
    assert set(seen.cleared) >= ALERTS
    assert silent == []
    assert still == []
