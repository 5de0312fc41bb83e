"""Every task of every domain is free of its author's mistakes; the big pools are varied."""

import re
from pathlib import Path

import pytest

from envfarm_cli.authoring.domain_facts import facts_of
from envfarm_cli.authoring.lint import lint
from envfarm_cli.authoring.task_shares import shares
from envfarm_cli.authoring.task_text import read_task, similar_pairs
from envfarm_cli.domain_files import find_tasks
from tests.support.pools import POOLS

DOMAINS = Path(__file__).parents[2] / "domains"
ALL = [read_task(files) for files in find_tasks(DOMAINS)]
FACTS = facts_of(DOMAINS, {task.domain for task in ALL})
HANDS_ON = ("escalate", "hand_over", "refer_for_review")
"""How tools begin that only hand a matter on."""
FEWEST = {"train": 320, "eval": 160}
"""Tasks of a pool."""
AGENTS_FAIL = {
    "acts before approval": "acts_before_approval",
    "neighbour's record": "acts_on_a_neighbours_record",
    "stops half-way and reports success": "stops_half_way",
    "does it twice": "does_it_twice",
    "forgets the side table": "forgets_the_side_table",
    "misreads date, currency, unit, partial amount": "misreads_",
    "trusts the user against the record": "trusts_the_user_against_the_record",
    "follows instructions found in a record": "follows_instructions_in_a_record",
}
"""Mistakes that agents are known for, and how their tags begin."""
LEAST_OF_A_MODE = {"train": 10, "eval": 4}
FULL_SIZE = [*POOLS["train"], *POOLS["eval"]]
CREATE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
ROW = re.compile(r"^ +\(", re.MULTILINE)


def test_no_task_has_a_mistake_that_shows_in_its_files():
    errors = [finding for finding in lint(ALL, FACTS) if finding.level == "error"]
    assert errors == []


@pytest.mark.parametrize("domain", FULL_SIZE)
def test_a_pool_has_no_warnings_either(domain: str):
    assert lint([task for task in ALL if task.domain == domain], FACTS) == []


def test_no_two_openings_of_both_pools_are_alike_and_no_golden_run_is_common():
    tasks = [task for task in ALL if task.domain in FULL_SIZE]
    assert similar_pairs(tasks, 0.6) == []
    assert max(shares(tasks, FACTS).skeletons.values()) <= 8


@pytest.mark.parametrize("domain", FULL_SIZE)
def test_a_pool_is_spread_over_workflows_and_ends(domain: str):
    tasks = [task for task in ALL if task.domain == domain]
    counted = shares(tasks, FACTS)
    assert counted.tasks >= 80
    assert max(counted.workflows.values()) * 12 <= counted.tasks
    writes = {tool for tool in FACTS[domain].writing if not tool.startswith(HANDS_ON)}
    restrained = sum(not set(task.skeleton) & writes for task in tasks)
    assert 0.15 <= restrained / counted.tasks <= 0.2


@pytest.mark.parametrize("domain", FULL_SIZE)
def test_a_world_of_full_size_has_tables_rows_tools_and_a_policy(domain: str):
    world = DOMAINS / domain / "world"
    tables = CREATE.findall((world / "schema.sql").read_text())
    assert 10 <= len(tables) <= 20
    assert 300 <= len(ROW.findall((world / "seed.sql").read_text())) <= 5_000
    assert 12 <= len(FACTS[domain].tools) <= 25
    assert 600 <= len((world / "policy.md").read_text().split()) <= 2_400
    assert len({task.workflow for task in ALL if task.domain == domain}) >= 10


@pytest.mark.parametrize("split", POOLS)
def test_a_pool_has_its_tasks_no_workflow_too_many_and_few_rubrics(split: str):
    tasks = [task for task in ALL if task.domain in POOLS[split]]
    counted = shares(tasks, FACTS)
    assert counted.tasks >= FEWEST[split]
    assert max(counted.workflows.values()) * 12 <= counted.tasks
    assert 0.05 <= counted.check_kinds["rubric"] / counted.tasks <= 0.08


@pytest.mark.parametrize("begins", AGENTS_FAIL.values(), ids=AGENTS_FAIL)
@pytest.mark.parametrize("split", POOLS)
def test_where_agents_fail_a_pool_has_tasks(split: str, begins: str):
    modes = [task.tag("failure_mode") for task in ALL if task.domain in POOLS[split]]
    assert sum(mode.startswith(begins) for mode in modes) >= LEAST_OF_A_MODE[split]
