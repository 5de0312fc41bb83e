"""A real Prometheus beside real services: every panel has data, every attempt one trace."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from envfarm.traces import trace_id_text, trace_ids

from envfarm_cli import records
from envfarm_watch.boards import BOARDS
from tests.support.polling import wait_until
from tests.support.trace_collector import Collector, trace_collector
from tests.support.watched_run import AGREED, TASKS, JobKind, WatchedRun, find_prometheus

ROOT = Path(__file__).parents[2]
QUERIES = [
    pytest.param(query, id=f"{board.uid}: {panel.title}: {query.legend}")
    for board in BOARDS
    for panel in board.panels
    for query in panel.queries
]
SERVICES = {"env-server", "grader", "rollout-gateway", "learner", "engine"}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with trace_collector() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        yield made


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[WatchedRun]:
    """A run that was trained on, held up, and evaluated; it still stands."""
    folder = tmp_path_factory.mktemp("watched")
    with WatchedRun(folder, find_prometheus(), scrape_seconds=1, attempt_seconds=8) as run:
        run.wait_for_job(run.play(*TASKS[:2], AGREED))
        wait_until(lambda: run.steps() == 2, "an update for each group", 400)
        run.settle()
        run.pause_engine()
        held = run.play(TASKS[0], kind=JobKind.JOB_KIND_PROBE)
        run.wait_for("sum(envfarm_samples_refilled_total)", lambda count: count > 0, 200)
        run.resume_engine()
        run.wait_for_job(held)
        run.wait_for_job(run.play(*TASKS[:2], kind=JobKind.JOB_KIND_EVAL))
        # Seen at several scrapes, or the last step of a range may lie before the first of them.
        run.wait_for("max(count_over_time(envfarm_evaluation_share[10s]))", lambda n: n >= 4, 100)
        yield run


@pytest.mark.timeout(1500)
def test_every_service_is_scraped_under_its_name(run: WatchedRun):
    now = time.time()
    found = run.prometheus.range("sum by (job) (up)", now - 2, now, 1)
    assert {series.labels["job"] for series in found if series.values[-1] == 1} == SERVICES


def test_every_query_of_every_panel_has_data(run: WatchedRun):
    silent = [
        parameters.id
        for parameters in QUERIES
        if not run.series(parameters.values[0], run.started, time.time())
    ]
    assert silent == []


def test_envfarm_boards_draws_every_dashboard(run: WatchedRun, tmp_path: Path):
    asked = [
        "boards",
        str(tmp_path / "drawn"),
        "--url",
        run.prometheus.url,
        "--minutes",
        "2",
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "envfarm_cli", *asked, "--scrape-seconds", str(run.scrape_seconds)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names = {board.uid.removeprefix("envfarm-") for board in BOARDS}
    assert {path.stem for path in (tmp_path / "drawn").glob("*.png")} == names


def test_no_metric_has_more_series_than_a_screen_can_show(run: WatchedRun):
    now = time.time()
    counted = run.prometheus.range(
        'count by (__name__, instance) ({__name__=~"envfarm_.*"})', now, now, 1
    )
    # A histogram has 17 buckets for each of its labels' values.
    assert counted and max(series.values[-1] for series in counted) <= 17 * 20


def test_an_attempt_is_one_trace_through_all_services(run: WatchedRun, collector: Collector):
    published = next(o for o in records.outcomes(run.folder / "gateway") if o.published)
    rollout_id = f"{published.group_id}.s0.a1"
    trace = trace_id_text(rollout_id)
    services = {
        f"envfarm-{name}" for name in ("rollout-gateway", "env-server", "grader", "learner")
    }
    wait_until(
        lambda: {span.service for span in collector.of(trace)} == services,
        "spans of all services",
        30,
    )
    spans = {span.id: span for span in collector.of(trace)}
    (root,) = [span for span in spans.values() if span.name == "attempt"]
    assert int(root.id, 16) == trace_ids(rollout_id).root and root.parent == ""
    assert all(span.parent in spans for span in spans.values() if span is not root)
    names = {(span.service, span.name) for span in spans.values()}
    assert names >= {
        ("envfarm-rollout-gateway", "generate"),
        ("envfarm-env-server", "OpenEpisode"),
        ("envfarm-env-server", "run tool"),
        ("envfarm-env-server", "ReadEvidence"),
        ("envfarm-grader", "Grade"),
        ("envfarm-learner", "learn"),
    }
    (evidence,) = [span for span in spans.values() if span.name == "ReadEvidence"]
    assert spans[evidence.parent].service == "envfarm-grader"


def test_log_lines_of_an_attempt_name_its_trace_and_its_episode(run: WatchedRun):
    lines = [
        json.loads(line)
        for log in (run.state.path / "logs").glob("*.log")
        for line in log.read_text().splitlines()
        if line.startswith("{")
    ]
    of_attempts = [line for line in lines if "rollout_id" in line]
    assert all(line["trace_id"] == trace_id_text(line["rollout_id"]) for line in of_attempts)
    assert any(line.get("episode_id") for line in of_attempts)


def test_only_attempts_are_traced(run: WatchedRun, collector: Collector):
    known = {span.trace for span in collector.spans if span.name == "attempt"}
    assert {span.trace for span in collector.spans} - known == set()


def test_alert_rules_do_what_their_tests_say():
    program = shutil.which("promtool") or str(find_prometheus().with_name("promtool"))
    done = subprocess.run(
        [program, "test", "rules", "alerts_test.yml"],
        cwd=ROOT / "deploy/prometheus",
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
