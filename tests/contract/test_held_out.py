"""Domains held out for evaluation share nothing with those that train: no table, no tool, no line of policy."""

import ast
import itertools
import re
from pathlib import Path

import pytest
import yaml

from tests.support.pools import POOLS

DOMAINS = Path(__file__).parents[2] / "domains"
POLICY_OVERLAP = 0.25
"""Jaccard index of the word pairs of two policies, above which one would be a copy of the other."""


def splits(domain: Path) -> set[str]:
    files = sorted((domain / "world/tasks").glob("*.yaml"))
    return {yaml.safe_load(path.read_text())["tags"]["split"] for path in files}


ALL = {path.name: splits(path) for path in sorted(DOMAINS.iterdir()) if path.is_dir()}
HELD_OUT = [name for name, found in ALL.items() if found == {"eval"}]
TRAINS = [name for name, found in ALL.items() if "train" in found]
PAIRS = [(one, other) for one in HELD_OUT for other in TRAINS]


def tables(domain: str) -> set[str]:
    text = (DOMAINS / domain / "world/schema.sql").read_text()
    return set(re.findall(r"^CREATE TABLE (\w+)", text, re.MULTILINE))


def tools(domain: str) -> dict[str, str]:
    """Description by name."""
    tree = ast.parse((DOMAINS / domain / "world/tools.py").read_text())
    found = {
        node.name: ast.get_docstring(node) or ""
        for node in tree.body
        if isinstance(node, ast.AsyncFunctionDef) and node.decorator_list
    }
    assert found, domain
    return found


def sentences(domain: str) -> set[str]:
    text = " ".join((DOMAINS / domain / "world/policy.md").read_text().split())
    found = (part.strip("-# ").lower() for part in re.split(r"(?<=[.:;])\s", text))
    return {part for part in found if len(part.split()) >= 4}


def word_pairs(domain: str) -> set[tuple[str, str]]:
    words = re.findall(r"[a-z]+", (DOMAINS / domain / "world/policy.md").read_text().lower())
    return set(itertools.pairwise(words))


def emails(domain: str) -> set[str]:
    return set(re.findall(r"[\w.+-]+@[\w.-]+\w", (DOMAINS / domain / "world/seed.sql").read_text()))


def test_a_domain_is_held_out():
    assert {"hotel", "rental"} <= set(HELD_OUT)
    assert {"orders", "counter", *POOLS["train"]} == set(TRAINS)


@pytest.mark.parametrize(("held_out", "trains"), PAIRS)
def test_no_table_is_shared(held_out: str, trains: str):
    assert tables(held_out) & tables(trains) == set()


@pytest.mark.parametrize(("held_out", "trains"), PAIRS)
def test_no_tool_is_shared(held_out: str, trains: str):
    one, other = tools(held_out), tools(trains)
    assert set(one) & set(other) == set()
    assert set(one.values()) & set(other.values()) == set()


@pytest.mark.parametrize(("held_out", "trains"), PAIRS)
def test_no_rule_is_shared(held_out: str, trains: str):
    assert sentences(held_out) & sentences(trains) == set()
    one, other = word_pairs(held_out), word_pairs(trains)
    assert len(one & other) / len(one | other) <= POLICY_OVERLAP


@pytest.mark.parametrize(("held_out", "trains"), PAIRS)
def test_nobody_is_in_both(held_out: str, trains: str):
    assert emails(held_out) & emails(trains) == set()
