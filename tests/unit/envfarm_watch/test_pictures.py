"""Boards drawn without a Prometheus: what its answers become."""

import math
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from envfarm_watch.boards import BOARDS
from envfarm_watch.panel import Query
from envfarm_watch.pictures import draw, legend, with_gaps


@dataclass
class Line:
    labels: dict[str, str] = field(default_factory=dict)
    times: list[float] = field(default_factory=lambda: [1000.0, 1005.0])
    values: list[float] = field(default_factory=lambda: [1.0, 2.0])


def test_a_legend_takes_the_values_of_its_labels():
    assert legend(Query("up", "{{world}} p99"), {"world": "orders", "le": "1"}) == "orders p99"
    assert legend(Query("up", "{{instance}} {{worker}}"), {"instance": "a:1"}) == "a:1"


def test_a_line_is_broken_where_samples_are_missing():
    times, values = with_gaps([0.0, 5.0, 30.0, 35.0], [1.0, 2.0, 8.0, 9.0])
    assert times == [0.0, 5.0, 10.0, 30.0, 35.0]
    assert values[:2] + values[3:] == [1.0, 2.0, 8.0, 9.0] and math.isnan(values[2])
    assert with_gaps([7.0], [1.0]) == ([7.0], [1.0])


@pytest.mark.parametrize("answer", [[], [Line()], [Line(times=[1005.0], values=[3.0]), Line()]])
def test_every_board_is_drawn_with_each_of_its_queries_asked(answer: list[Line], tmp_path: Path):
    board, asked = BOARDS[0], list[Query]()

    def ask(query: Query) -> list[Line]:
        asked.append(query)
        return answer

    draw(board, ask, tmp_path / "board.png", 990.0, 1010.0)
    assert asked == [query for panel in board.panels for query in panel.queries]
    assert (tmp_path / "board.png").read_bytes().startswith(b"\x89PNG")
