"""Every task of every domain is free of its author's mistakes; the big pools are varied."""

from pathlib import Path

import pytest

from envfarm_cli.authoring.domain_facts import facts_of
from envfarm_cli.authoring.lint import lint
from envfarm_cli.authoring.task_shares import shares
from envfarm_cli.authoring.task_text import read_task, similar_pairs
from envfarm_cli.domain_files import find_tasks

DOMAINS = Path(__file__).parents[2] / "domains"
ALL = [read_task(files) for files in find_tasks(DOMAINS)]
FACTS = facts_of(DOMAINS, {task.domain for task in ALL})
HANDS_ON = {"escalate", "hand_over", "refer_for_review"}
"""Writing tools that only hand a matter on."""
POOLS = ["fieldservice", "hotel", "subscriptions"]
"""Domains of full size, whose wording and traps are written by hand."""


def test_no_task_has_a_mistake_that_shows_in_its_files():
    errors = [finding for finding in lint(ALL, FACTS) if finding.level == "error"]
    assert errors == []


@pytest.mark.parametrize("domain", POOLS)
def test_a_pool_has_no_warnings_either(domain: str):
    assert lint([task for task in ALL if task.domain == domain], FACTS) == []


@pytest.mark.parametrize("domain", POOLS)
def test_openings_of_a_pool_are_not_alike(domain: str):
    tasks = [task for task in ALL if task.domain == domain]
    assert similar_pairs(tasks, 0.6) == []


@pytest.mark.parametrize("domain", POOLS)
def test_a_pool_is_spread_over_workflows_skeletons_and_ends(domain: str):
    tasks = [task for task in ALL if task.domain == domain]
    counted = shares(tasks, FACTS)
    assert counted.tasks >= 80
    assert max(counted.workflows.values()) * 12 <= counted.tasks
    assert max(counted.skeletons.values()) <= 8
    writes = FACTS[domain].writing - HANDS_ON
    restrained = sum(not set(task.skeleton) & writes for task in tasks)
    assert 0.15 <= restrained / counted.tasks <= 0.2
