"""`tasks lint`, `stats` and `similar` on tasks made by hand, with values worked out by hand."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from env_server.toolkit import READ, WRITE, Call, build_tool
from envfarm_cli.authoring.domain_facts import DomainFacts
from envfarm_cli.authoring.lint import lint
from envfarm_cli.authoring.task_shares import shares
from envfarm_cli.authoring.task_text import (
    TaskText,
    frequent_skeletons,
    jaccard,
    masked_words,
    similar_pairs,
)
from envfarm_cli.main import main

PUBLIC = {
    "id": "shop/a",
    "opening": "Please refund my lamp, I am Ada.",
    "limits": {"max_tool_calls": 4},
    "tags": {"workflow": "refund", "failure_mode": "does_it_twice", "split": "train"},
}
USER = {"task": "shop/a", "context": "You are Ada and want the lamp refunded.", "script": []}
PRIVATE = {
    "task": "shop/a",
    "golden": {
        "actions": [
            {"tool": "get_order", "arguments": {"order_id": "O-1"}},
            {"tool": "issue_refund", "arguments": {"order_id": "O-1", "amount": 12.5}},
        ],
        "reply": "Your lamp of order O-1 is refunded.",
    },
    "checks": [
        {"name": "final state", "kind": "state"},
        {"name": "names the order", "kind": "reply", "contains_all": ["O-1"]},
    ],
    "extra_write": {"tool": "issue_refund", "arguments": {"order_id": "O-2", "amount": 1.0}},
    "near_misses": [{"name": "refunds it all", "actions": []}],
}


def task(change: dict[str, dict[str, Any]] | None = None, name: str = "shop/a") -> TaskText:
    parts = {"public": PUBLIC, "user": USER, "private": PRIVATE}
    parts = {
        part: {**copy.deepcopy(value), **(change or {}).get(part, {})}
        for part, value in parts.items()
    }
    return TaskText(name, "shop", parts["public"], parts["user"], parts["private"])


def codes(change: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    return [(finding.level, finding.code) for finding in lint([task(change)])]


def test_a_sound_task_has_no_findings():
    assert lint([task()]) == []


def with_check(**check: Any) -> dict[str, dict[str, Any]]:
    return {
        "private": {"checks": [{"name": "final state", "kind": "state"}, {"name": "x", **check}]}
    }


JUDGES = ("error", "context_judges")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"private": {"checks": [PRIVATE["checks"][1]]}}, ("error", "no_database_check")),
        (with_check(kind="reply"), ("error", "cannot_fail")),
        (with_check(kind="reply", matches="(refund)?"), ("error", "cannot_fail")),
        (with_check(kind="sql", query="SELECT true", expect=True), ("error", "cannot_fail")),
        (with_check(kind="sql", query="select 1 = 1", expect=True), ("error", "cannot_fail")),
        (with_check(kind="untouched", tables=[]), ("error", "cannot_fail")),
        (
            with_check(kind="python", code="def check(changes, reply, rows):\n    return True"),
            ("error", "cannot_fail"),
        ),
        (
            {"user": {"context": "Hear: your lamp of  order O-1 is refunded."}},
            ("error", "leaks_reply"),
        ),
        ({"public": {"opening": "I know who refunds it all."}}, ("error", "leaks_check")),
        ({"user": {"script": [{"when": "x", "say": "near_misses"}]}}, ("error", "leaks_check")),
        ({"public": {"limits": {"max_tool_calls": 1}}}, ("error", "limit_too_low")),
        ({"public": {"opening": "Call issue_refund."}}, ("warning", "opening_tells")),
        ({"user": {"context": "You are owed 12.50."}}, ("warning", "amount_in_context")),
        (with_check(kind="sql", query="SELECT now() > 'x'", expect=True), ("error", "cannot_fail")),
        (with_check(kind="reply", contains_all=["O-2"]), ("error", "reply_fails")),
        ({"user": {"context": "You want it all, and the agent must refuse."}}, JUDGES),
        ({"user": {"context": "The right answer is no."}}, JUDGES),
        ({"public": {"opening": "FILL IN: the first message"}}, ("error", "unfinished")),
        (
            {"user": {"context": "Tell it to call issue_refund for you."}},
            ("warning", "opening_tells"),
        ),
        ({"private": {"near_misses": []}}, ("warning", "no_near_miss")),
        ({"user": {"context": " "}}, ("warning", "user_has_no_words")),
    ],
)
def test_each_mistake_is_found_and_nothing_else(change: dict, code: tuple[str, str]):
    assert codes(change) == [code]


@pytest.mark.parametrize(
    "change",
    [
        with_check(kind="reply", contains_none=["sorry"]),
        with_check(kind="reply", matches="refund"),
        with_check(kind="sql", query="SELECT count(*) = 1 FROM refunds", expect=True),
        with_check(kind="python", code="def check(changes, reply, rows):\n    return not changes"),
        {"public": {"opening": "I want my 12.50 back."}, "user": {"context": "You want 12.50."}},
    ],
)
def test_what_can_fail_or_was_said_by_the_user_is_no_mistake(change: dict):
    assert codes(change) == []


async def get_order(call: Call, order_id: str) -> dict:
    """Show an order."""
    return {}


async def issue_refund(call: Call, order_id: str, amount: float, note: str = "") -> dict:
    """Refund."""
    return {}


SHOP = DomainFacts(
    {"get_order": build_tool(READ, get_order), "issue_refund": build_tool(WRITE, issue_refund)},
    "Refund what is broken.",
    "INSERT INTO orders VALUES ('O-1', 'Ada'), ('O-2', 'Bo');",
)


def golden(*calls: dict[str, Any], reply: str = "O-1 is refunded.") -> dict[str, Any]:
    return {"private": {"golden": {"actions": list(calls), "reply": reply}}}


def refund(**arguments: Any) -> dict[str, Any]:
    return {"tool": "issue_refund", "arguments": {"order_id": "O-1", "amount": 1.0, **arguments}}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (golden({"tool": "pay_out", "arguments": {}}), "unknown_tool"),
        (golden({"tool": "get_order", "arguments": {"order": "O-1"}}), "bad_arguments"),
        (golden(refund(amount="much")), "bad_arguments"),
        (golden(refund(note="because it arrived broken")), "ambiguous_goal"),
        (golden(refund(order_id="X-99")), "unreachable_value"),
        ({**golden(refund(order_id="O-9")), "user": {"context": "It is O-9."}}, "leaks_made_id"),
        ({"private": {"extra_write": {"tool": "burn", "arguments": {}}}}, "unknown_tool"),
        (
            {
                "private": {
                    "near_misses": [
                        {"name": "late", "actions": [{"tool": "get_order", "arguments": {}}]}
                    ]
                }
            },
            "bad_arguments",
        ),
    ],
)
def test_an_end_that_cannot_be_reached_is_found_with_the_world(change: dict, code: str):
    found = [finding.code for finding in lint([task(change)], {"shop": SHOP})]
    assert found == [code]


@pytest.mark.parametrize(
    "change",
    [
        {},
        golden(refund(order_id="O-3")),
        golden(refund(note="Ada wants the lamp")) | {"user": {"context": "Ada wants the lamp."}},
        {
            "private": {
                **golden(refund(note="because it arrived broken"))["private"],
                "checks": [{"name": "end", "kind": "state", "unstable": ["refunds.note"]}],
            }
        },
        golden(refund(note="2026-03-04")),
    ],
)
def test_what_an_agent_can_know_is_no_mistake(change: dict):
    assert lint([task(change)], {"shop": SHOP}) == []


def test_the_same_words_with_two_right_ends_are_ambiguous():
    other = task(golden(refund(amount=2.0)), "shop/b")
    assert [f.code for f in lint([task(), other, task(name="shop/c")])] == ["ambiguous_goal"]


def test_a_call_skeleton_that_is_too_frequent_is_named():
    tasks = [task(name=f"shop/{n}") for n in range(3)]
    skeleton = ("get_order", "issue_refund")
    assert frequent_skeletons(tasks, 2) == [("shop", skeleton, 3)]
    assert frequent_skeletons(tasks, 3) == []


def test_names_numbers_dates_and_addresses_are_masked():
    text = "Hello, I am Ada (ada@example.com); order O-1012 of 3/4 came on Monday, 17 March."
    assert masked_words(text) == {"hello", "i", "am", "*", "order", "of", "came", "on"}
    one = masked_words("Cancel order O-1 of Ada please")
    assert one == masked_words("Cancel order O-77 of Bruno please")


def test_jaccard_is_shared_words_by_all_words():
    assert jaccard(frozenset("abc"), frozenset("bcd")) == pytest.approx(2 / 4)
    assert jaccard(frozenset(), frozenset()) == 1
    assert jaccard(frozenset("a"), frozenset()) == 0


def test_similar_pairs_come_with_the_most_alike_first():
    openings = {
        "a": "refund my lamp",
        "b": "refund my lamp please",
        "c": "refund my chair",
        "d": "no",
    }
    tasks = [task({"public": {"opening": text}}, name) for name, text in openings.items()]
    assert similar_pairs(tasks, 0.5) == [(3 / 4, "a", "b"), (2 / 4, "a", "c")]


def test_shares_count_every_task_once_and_tell_restraint_from_action():
    idle = copy.deepcopy(PRIVATE["golden"])
    idle["actions"] = idle["actions"][:1]
    tasks = [task(), task(name="shop/b"), task({"private": {"golden": idle}}, "shop/c")]
    counted = shares(tasks, {"shop": SHOP})
    assert counted.tasks == 3
    assert counted.workflows == {"refund": 3}
    assert counted.skeletons == {"get_order > issue_refund": 2, "get_order": 1}
    assert (counted.changes_nothing, counted.one_write, counted.near_misses) == (1, 2, 3)
    assert counted.check_kinds == {"reply": 3, "state": 3}


@pytest.fixture
def domains(tmp_path: Path) -> Path:
    files = {"world/tasks": PUBLIC, "user": USER, "private": PRIVATE}
    for slug in ("a", "b"):
        for folder, content in files.items():
            path = tmp_path / "shop" / folder / f"{slug}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(yaml.safe_dump(content))
    return tmp_path


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return json.loads(capsys.readouterr().out)


def test_lint_passes_warnings_unless_strict(domains: Path, capsys):
    path = domains / "shop/private/a.yaml"
    path.write_text(yaml.safe_dump({**PRIVATE, "near_misses": []}))
    assert main(["tasks", "lint", "--json", "--domains", str(domains)]) == 0
    assert [finding["code"] for finding in said(capsys)["findings"]] == ["no_near_miss"]
    assert main(["tasks", "lint", "--json", "--strict", "--domains", str(domains)]) == 1
    assert said(capsys)["ok"] is False


def test_lint_fails_with_an_error(domains: Path, capsys):
    path = domains / "shop/private/a.yaml"
    path.write_text(yaml.safe_dump({**PRIVATE, "checks": PRIVATE["checks"][1:]}))
    assert main(["tasks", "lint", "--domains", str(domains)]) == 1
    assert "only words are judged" in capsys.readouterr().out


def test_similar_fails_when_two_openings_are_one(domains: Path, capsys):
    assert main(["tasks", "similar", "--json", "--domains", str(domains)]) == 1
    assert said(capsys)["pairs"] == [{"jaccard": 1.0, "tasks": ["shop/a", "shop/b"]}]


def test_stats_counts_and_an_unknown_split_is_told(domains: Path, capsys):
    assert main(["tasks", "stats", "--json", "--domains", str(domains)]) == 0
    assert said(capsys)["splits"] == {"train": 2}
    assert main(["tasks", "stats", "--domains", str(domains), "--split", "eval"]) == 2
    assert "splits here are: train" in capsys.readouterr().err
