"""When a panel counts as moved: the judgement of the rounds of boards can say no."""

from types import SimpleNamespace
from typing import Any, Literal

import pytest

from envfarm_cli.prometheus_api import Series
from envfarm_watch.panel import Panel, Query
from tests.support.board_provocations import Provoked

PANEL = Panel(title="Stages", question="?", unit="share", queries=(Query("x", "{{stage}}"),))
TIMES = [90.0, 95.0, 100.0, 105.0, 110.0, 115.0, 120.0, 125.0]
"""Scrapes every five seconds around a scene from 100 to 110."""


def moved(way: Literal["rises", "falls"], values: list[float | None], stage: str = "tool") -> bool:
    known = [(at, value) for at, value in zip(TIMES, values, strict=True) if value is not None]
    line = Series({"stage": stage}, [at for at, _ in known], [value for _, value in known])
    run: Any = SimpleNamespace(scrape_seconds=5, series=lambda *_: [line] if known else [])
    return Provoked("a scene", "tool", way).moves(run, PANEL, 100.0, 110.0)


@pytest.mark.parametrize(
    ("values", "rises", "falls"),
    [
        ([1, 1, 1, 1, 1, 1, 1, 1], False, False),
        ([2, 1, 1, 1, 1, 1, 1, 1], False, False),
        ([1, 1, 1, 1, 2, 1, 1, 1], True, False),
        ([3, 3, 3, 1, 1, 1, 1, 1], False, True),
        ([None, None, None, None, 1, 1, 1, 1], True, False),
        ([None, None, None, None, 0, 0, 0, 0], False, False),
        ([1, 1, 1, 1, None, None, None, None], False, True),
        ([2, 2, 2, None, None, 1, 1, 1], True, True),
        ([None] * 8, False, False),
    ],
)
def test_a_series_that_changes_since_its_scene_began_has_moved(
    values: list[float | None], rises: bool, falls: bool
):
    assert (moved("rises", values), moved("falls", values)) == (rises, falls)


def test_another_series_of_the_panel_does_not_count():
    assert not moved("rises", [0, 0, 0, 5, 5, 5, 5, 5], stage="open")
