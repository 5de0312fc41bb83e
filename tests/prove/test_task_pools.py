"""Each pool of full size: every task proves itself, and no scripted agent without a mind gets by."""

from pathlib import Path

import pytest

from tests.support.envfarm_command import Envfarm
from tests.support.proof import write_proof

POOLS = ["subscriptions"]
FEWEST_MUTANTS = 12
"""Of one task."""


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("domain", POOLS)
def test_a_pool_proves_itself_and_rewards_no_agent_without_a_mind(domain: str, tmp_path: Path):
    farm = Envfarm(tmp_path)
    chosen = ("--domain", domain, "--json")
    proved = farm.run("tasks", "validate", "--stand-in-judge", *chosen, seconds=900)
    assert proved.code == 0, proved.json["failures"]
    report = proved.json
    assert report["passed"] == report["tasks"] >= 80
    assert report["few_mutants"] == []
    assert report["mutants"] >= FEWEST_MUTANTS * report["tasks"]
    assert report["equivalent_declared"] <= 0.05 * report["mutants"]
    assert report["mutants_killed"] == report["mutants"] - report["equivalent_declared"]
    tried = farm.run("tasks", "baselines", *chosen, seconds=600)
    assert tried.code == 0, tried.out
    write_proof(
        f"tasks-{domain}",
        {
            "tasks": report["tasks"],
            "mutants": report["mutants"],
            "killed": report["mutants_killed"],
            "equivalent_declared": report["equivalent_declared"],
            "by_kind": report["by_kind"],
            "agents": {pool["agent"]: pool["share"] for pool in tried.json["pools"]},
            "seconds": round(report["seconds"]),
        },
    )
