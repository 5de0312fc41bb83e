"""Dashboards and alerts ask for what the registry has, by its labels; generated files are current."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import yaml
from envfarm.metrics import BY_NAME, METRICS

from envfarm_watch import grafana, reference
from envfarm_watch.boards import BOARDS
from envfarm_watch.panel import Unit
from tests.support.board_provocations import PROVOKED_BY
from tests.support.watched_scenes import SCENES

ROOT = Path(__file__).parents[2]
ALERTS = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())["groups"][0]["rules"]
PANELS = [(board.uid, panel) for board in BOARDS for panel in board.panels]
ADDED_BY_PROMETHEUS = {"le", "instance", "job"}


def expressions() -> list[tuple[str, str]]:
    asked = [(f"{uid}: {p.title}", q.expression) for uid, p in PANELS for q in p.queries]
    return asked + [(rule["alert"], rule["expr"]) for rule in ALERTS]


def registered(name: str) -> str | None:
    """The registry's name of a series: histograms have three."""
    if name in BY_NAME and BY_NAME[name].kind != "histogram":
        return name
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    return base if base in BY_NAME and BY_NAME[base].kind == "histogram" else None


def test_every_series_that_is_asked_for_is_registered():
    unknown = {
        f"{where}: {name}"
        for where, expression in expressions()
        for name in re.findall(r"\benvfarm_[a-z_]+", expression)
        if registered(name) is None
    }
    assert unknown == set()


def test_every_label_that_is_asked_for_belongs_to_a_metric_of_its_expression():
    wrong = set()
    for where, expression in expressions():
        names = [registered(name) for name in re.findall(r"\benvfarm_[a-z_]+", expression)]
        known = ADDED_BY_PROMETHEUS.union(*(BY_NAME[name].labels for name in names if name))
        grouped = re.findall(r"\bby \(([^)]*)\)", expression)
        asked = {label.strip() for labels in grouped for label in labels.split(",")}
        asked |= set(re.findall(r'([a-z_]+)(?:=~?|!=)"', expression))
        wrong |= {f"{where}: {label}" for label in asked - known}
    assert wrong == set()


def test_every_metric_is_shown_somewhere():
    assert [m.name for m in METRICS if not reference.shown_on(m.name)] == []


def test_counters_are_asked_for_as_rates():
    for where, expression in expressions():
        for name in re.findall(r"\b(envfarm_[a-z_]+_total)\b", expression):
            asked = re.search(rf"(rate|increase)\({name}", expression)
            assert asked or where == "envfarm-farm: Leaked databases", where


@pytest.mark.parametrize("uid", [board.uid for board in BOARDS])
def test_titles_within_a_board_are_unique_and_every_panel_says_what_it_answers(uid: str):
    panels = [panel for board, panel in PANELS if board == uid]
    assert len({panel.title for panel in panels}) == len(panels)
    assert all(panel.question.endswith(".") and len(panel.question) > 20 for panel in panels)


def test_every_unit_is_one_of_grafana_and_every_panel_of_a_dashboard_has_one():
    assert set(grafana.GRAFANA_UNITS) == set(get_args(Unit))
    for path in (ROOT / "deploy/grafana/dashboards").glob("*.json"):
        for panel in json.loads(path.read_text())["panels"]:
            if panel["type"] != "row":
                assert panel["description"] and panel["fieldConfig"]["defaults"]["unit"], path


def test_board_ids_are_unique():
    assert len({board.uid for board in BOARDS}) == len(BOARDS)


def test_the_committed_dashboards_are_those_of_the_source():
    assert grafana.main([str(ROOT / "deploy/grafana/dashboards"), "--check"]) == 0


def test_the_metric_page_is_that_of_the_registry():
    assert reference.main([str(ROOT / "docs/metrics.md"), "--check"]) == 0


def test_a_changed_dashboard_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert grafana.main([str(tmp_path)]) == 0
    (tmp_path / "farm.json").write_text("{}")
    (tmp_path / "stray.json").write_text("{}")
    assert grafana.main([str(tmp_path), "--check"]) == 1
    assert "farm.json, stray.json" in capsys.readouterr().err
    assert grafana.main([str(tmp_path)]) == 0
    assert not (tmp_path / "stray.json").exists()


def test_every_alert_has_a_severity_and_says_what_to_do():
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["description"].endswith(".")


def test_every_alert_is_tested():
    tested = yaml.safe_load((ROOT / "deploy/prometheus/alerts_test.yml").read_text())["tests"]
    names = {case["alertname"] for test in tested for case in test["alert_rule_test"]}
    assert names == {rule["alert"] for rule in ALERTS}


def test_every_panel_and_every_alert_has_a_scene_that_provokes_it():
    provoked = {(uid, title): one for uid, of in PROVOKED_BY.items() for title, one in of.items()}
    assert provoked.keys() == {(uid, panel.title) for uid, panel in PANELS}
    assert {one.scene for one in provoked.values()} <= SCENES.keys()
    alerts = [alert for scene in SCENES.values() for alert in scene.alerts]
    assert sorted(alerts) == sorted(rule["alert"] for rule in ALERTS)


def test_the_generators_run_as_modules():
    done = subprocess.run(
        [sys.executable, "-m", "envfarm_watch.reference", str(ROOT / "docs/metrics.md"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
