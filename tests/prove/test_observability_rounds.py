"""Every panel moves when what it shows is provoked, and every alert fires within a minute and clears.

One stack and one Prometheus at its ordinary interval play scene after scene; `-k "a leak"` plays one
alone, with its alerts and panels.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from envfarm_watch.boards import BOARDS
from envfarm_watch.panel import Board, Panel
from tests.support.alert_watch import FIRE_SECONDS, AlertWatch
from tests.support.board_provocations import PROVOKED_BY
from tests.support.given_postgres import given_postgres
from tests.support.proof import write_proof
from tests.support.watched_run import WatchedRun, find_prometheus
from tests.support.watched_scenes import SCENES, Stage, thoughtful_script

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]

SCRAPE_SHARE = 0.01
"""Of a core, which answering scrapes may cost a process."""
ALERTS = [
    pytest.param(alert, id=f"{name}: {alert}")
    for name, scene in SCENES.items()
    for alert in scene.alerts
]
PANELS = [
    pytest.param(
        board, panel, id=f"{PROVOKED_BY[board.uid][panel.title].scene}: {board.uid}: {panel.title}"
    )
    for board in BOARDS
    for panel in board.panels
]


@contextmanager
def scripted_thoughts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("envfarm_cli.stack.write_script", thoughtful_script)
        yield


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    program = find_prometheus()
    with (
        scripted_thoughts(),
        given_postgres() as dsn,
        WatchedRun(
            tmp_path_factory.mktemp("watched"),
            program,
            scrape_seconds=5,
            attempt_seconds=100,
            may_restart=True,
            env_settings={"ENV_SERVER_BACKEND": "server", "ENV_SERVER_DSN": dsn},
            gateway_settings={"GATEWAY_CALL_SECONDS": "100"},
        ) as run,
        AlertWatch(run.prometheus) as alerts,
    ):
        yield Stage(run, alerts, dsn)


@pytest.mark.parametrize("name", SCENES)
def test_the_alerts_of_a_scene_fire_within_a_minute(stage: Stage, name: str):
    stage.play(name)
    took = {alert: stage.alerts.fire_seconds[alert] for alert in SCENES[name].alerts}
    assert all(seconds <= FIRE_SECONDS for seconds in took.values()), took


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_clears_when_its_cause_is_gone(stage: Stage, alert: str):
    if alert not in stage.alerts.fire_seconds:
        pytest.fail("it has not fired")
    stage.alerts.expect_clear(alert)


@pytest.mark.parametrize(("board", "panel"), PANELS)
def test_a_panel_moves_in_its_scene(stage: Stage, board: Board, panel: Panel):
    provoked = PROVOKED_BY[board.uid][panel.title]
    assert provoked.scene in stage.times, "its scene was not played to its end"
    assert provoked.moves(stage.run, panel, *stage.times[provoked.scene]), provoked


def test_scrapes_cost_a_process_less_than_a_hundredth_of_a_core_visitors(stage: Stage):
    shares = shares_of_a_core(stage)
    assert set(shares) == {"env-server", "grader", "rollout-gateway", "learner", "engine"}
    assert max(shares.values()) < SCRAPE_SHARE, shares


def test_every_query_of_every_panel_had_data(stage: Stage):
    if stage.times.keys() != SCENES.keys():
        pytest.skip("not all scenes were played")
    silent = [
        f"{board.uid}: {panel.title}: {query.legend}"
        for board in BOARDS
        for panel in board.panels
        for query in panel.queries
        if not stage.run.series(query, stage.run.started, time.time())
    ]
    assert silent == []


def test_the_figures_of_all_scenes_are_kept(stage: Stage):
    if stage.times.keys() != SCENES.keys():
        pytest.skip("not all scenes were played")
    write_proof(
        "observability",
        {
            "scrape_seconds": stage.run.scrape_seconds,
            "alert_seconds_from_cause": dict(sorted(stage.alerts.fire_seconds.items())),
            "alert_seconds_to_clear": dict(sorted(stage.alerts.clear_seconds.items())),
            "scrape_share_of_a_core": shares_of_a_core(stage),
            "panels_moved_by": {
                f"{board.uid}: {panel.title}": PROVOKED_BY[board.uid][panel.title].scene
                for board in BOARDS
                for panel in board.panels
            },
        },
    )


def shares_of_a_core(stage: Stage) -> dict[str, float]:
    """What answering a scrape every five seconds costs each service, its other work included."""
    costs = stage.scrape_cpu_seconds.items()
    return {job: round(cost / stage.run.scrape_seconds, 5) for job, cost in sorted(costs)}
