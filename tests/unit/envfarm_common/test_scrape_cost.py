"""What a scrape costs the process that is scraped."""

import time
from collections.abc import Callable

from envfarm_common.metrics import Instruments

FEW_FORMATS = 25
"""A page's line may cost this many bare formats of a line: 9 when this was written."""


def test_a_scrape_costs_a_busy_env_server_little_more_than_writing_its_lines():
    instruments = Instruments("env-server")
    for world in ("orders", "counter", "fieldservice"):
        for tool in range(20):
            for outcome in ("ok", "refused", "failed"):
                instruments.observe(
                    "envfarm_tool_seconds", 0.01, world=world, tool=f"t{tool}", outcome=outcome
                )
    lines = instruments.render().count(b"\n")
    assert lines > 3000
    ratio = cpu_seconds(instruments.render) / cpu_seconds(lambda: bare_lines(lines))
    assert ratio < FEW_FORMATS


def bare_lines(count: int) -> bytes:
    """As many lines of the same shape, without anything that knows what they mean."""
    labels = {"world": "fieldservice", "tool": "t11", "outcome": "refused", "le": "0.05"}
    page = []
    for number in range(count):
        inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
        page.append(f"envfarm_tool_seconds_bucket{{{inside}}} {float(number)}\n")
    return "".join(page).encode()


def cpu_seconds(work: Callable[[], object]) -> float:
    """The least of several runs, so that a neighbour on the machine does not count."""
    costs = []
    for _ in range(5):
        begin = time.process_time()
        work()
        costs.append(time.process_time() - begin)
    return min(costs)
