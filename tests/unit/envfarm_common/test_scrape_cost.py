"""What a scrape costs the process that is scraped."""

import time

from envfarm_common.metrics import Instruments

SCRAPE_SECONDS = 5.0
"""The interval of deploy/prometheus."""


def test_a_scrape_costs_a_busy_env_server_less_than_a_hundredth_of_a_core():
    instruments = Instruments("env-server")
    for world in ("orders", "counter", "fieldservice"):
        for tool in range(20):
            for outcome in ("ok", "refused", "failed"):
                instruments.observe(
                    "envfarm_tool_seconds", 0.01, world=world, tool=f"t{tool}", outcome=outcome
                )
    costs = []
    for _ in range(5):
        begin = time.process_time()
        page = instruments.render()
        costs.append(time.process_time() - begin)
    assert page.count(b"\n") > 3000
    assert min(costs) < SCRAPE_SECONDS / 100
