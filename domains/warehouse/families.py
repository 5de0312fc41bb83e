"""Write the seed rows and the tasks of the stock desk from its cases.

Each file in cases/ is one workflow: its tasks with the facts of a merchant, what the caller says, what is right, and the
runs that look right. A call is a list of a word of CALLS and its arguments; $names stand for ids of the merchant, and a
few words stand for calls that the house rules always want together:

    [trace, EVENT, LOT, PIECES]          journal and notice about the lot
    [stop, OUTBOUND], [go_on, OUTBOUND]  on hold or off it, with its notice
    [cancel, OUTBOUND, FEE?]             cancelled, charged and told
    [count, BIN, LOT]                    recount and its notice

`python domains/warehouse/families.py` writes world/seed.sql, world/tasks, user and private; `--check` fails when what is
committed differs. company.py makes the rows.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import company as world
import yaml

from envfarm_cli.authoring import case_pool
from envfarm_cli.authoring.case_pool import Case, Places

ROOT = Path(__file__).resolve().parent
NAME = "warehouse"
PLACES = Places(count=104, step=37, start=7, most_cases=5)
"""Merchants; 80 of them for cases, the others are neighbours."""
LIMITS = {
    "max_turns": 14,
    "max_tool_calls": 24,
    "max_turn_tokens": 1024,
    "max_total_tokens": 49152,
    "max_tool_seconds": 20,
}
CALLS = {
    "find": ("find_caller", "email"),
    "merchant": ("show_merchant", "merchant_id"),
    "lot": ("show_lot", "lot_id"),
    "bin": ("show_bin", "bin_id"),
    "ib": ("show_inbound", "inbound_id"),
    "ob": ("show_outbound", "outbound_id"),
    "rt": ("show_return", "return_id"),
    "book": ("book_receipt", "inbound_id sku_id lot_code good damaged bin_id best_before"),
    "move": ("move_stock", "lot_id from_bin to_bin pieces"),
    "recount": ("order_recount", "bin_id lot_id"),
    "adjust": ("adjust_stock", "bin_id lot_id delta reason approval_id"),
    "block": ("open_quarantine", "lot_id reason report"),
    "end": ("end_quarantine", "quarantine_id approval_id"),
    "destroy": ("destroy_stock", "lot_id bin_id pieces approval_id"),
    "steer": ("steer_outbound", "outbound_id step"),
    "pieces": ("change_pieces", "outbound_id lot_id pieces"),
    "address": ("readdress_outbound", "outbound_id street postcode town country"),
    "service": ("set_service", "outbound_id service"),
    "back": ("put_away_return", "return_id lot_id grade pieces bin_id"),
    "post": ("post_amount", "kind record amount approval_id"),
    "ask": ("ask_controller_approval", "matter record amount"),
    "journal": ("write_stock_journal", "lot_id event pieces note"),
    "notice": ("send_notice", "template record caller_id"),
    "up": ("escalate_to_team", "team record note caller_id"),
}
"""Tool and order of its arguments by the word that cases use."""
SELDOM_GIVEN = {
    "report": "As reported by $person.",
    "note": {"journal": "As reported by $person.", "up": "$person asked for it at the desk."},
    "caller_id": {"notice": "$to", "up": "$caller"},
}
"""What stands for arguments that a case leaves out."""
NEW_ROWS = {
    "order_recount": ("count_sheets", ["bin_id", "lot_id"]),
    "adjust_stock": ("stock_adjustments", ["bin_id", "lot_id", "reason"]),
    "destroy_stock": ("stock_adjustments", ["bin_id", "lot_id", "reason"]),
    "open_quarantine": ("quarantine_cases", ["lot_id"]),
    "post_amount": ("merchant_postings", ["kind", "record"]),
    "ask_controller_approval": ("controller_approvals", ["matter", "record", "amount"]),
    "write_stock_journal": ("stock_journal", ["lot_id", "event"]),
    "send_notice": ("merchant_notices", ["caller_id", "template", "record"]),
    "escalate_to_team": ("warehouse_escalations", ["caller_id", "team", "record"]),
}
"""Tables with generated ids, and the natural keys of their rows, by the tool that writes them."""
FREE_TEXT = {
    "open_quarantine": "quarantine_cases.report",
    "write_stock_journal": "stock_journal.note",
    "escalate_to_team": "warehouse_escalations.note",
}
CITES = {
    "adjust_stock": "stock_adjustments",
    "destroy_stock": "stock_adjustments",
    "end_quarantine": "quarantine_cases",
    "post_amount": "merchant_postings",
}
"""Tables that name an approval, by the tool that writes it."""
ALWAYS_SAYS = [
    {"when": r"(?i)e-?mail", "say": "That's $email."},
    {
        "when": r"(?i)\b(confirm|shall I|should I|would you like|agree|is that (ok|right))\b",
        "say": "Yes, do that.",
    },
]


def spelled_out(calls: list[list[Any]]) -> list[list[Any]]:
    """With the words replaced that stand for several calls."""
    found: list[list[Any]] = []
    for word, *values in calls:
        match word, values:
            case "trace", [event, lot, pieces]:
                found += [["journal", lot, event, pieces], ["notice", event, lot]]
            case "stop", [outbound]:
                found += [["steer", outbound, "hold"], ["notice", "outbound_held", outbound]]
            case "go_on", [outbound]:
                found += [["steer", outbound, "resume"], ["notice", "outbound_resumed", outbound]]
            case "cancel", [outbound, *fee]:
                found += [["steer", outbound, "cancel"]]
                found += [["post", "cancellation", outbound, amount] for amount in fee]
                found += [["notice", "outbound_cancelled", outbound]]
            case "count", [name, lot]:
                found += [["recount", name, lot], ["notice", "recount_ordered", lot]]
            case _:
                found.append([word, *values])
    return found


class Story(case_pool.Story):
    """A case of the stock desk."""

    def calls(self, written: list[list[Any]]) -> list[dict[str, Any]]:
        """Calls of tools for the words of a case; ValueError for one argument too many."""
        return [self._call(word, values) for word, *values in spelled_out(written)]

    def _call(self, word: str, values: list[Any]) -> dict[str, Any]:
        tool, order = CALLS[word]
        names = order.split()
        if len(values) > len(names):
            raise ValueError(f"{self.case['slug']}: too many arguments for {word}: {values}")
        given = dict(zip(names, map(self.value, values), strict=False))
        for name in names[len(values) :]:
            usual = SELDOM_GIVEN.get(name)
            if usual is not None:
                given[name] = self.text(usual[word] if isinstance(usual, dict) else usual)
        return {"tool": tool, "arguments": given}

    def reads(self) -> list[dict[str, Any]]:
        """Looking the caller up, and calls for what the case looks at: records by name, or bins."""
        found: list[list[Any]] = [["find", "$email"]]
        for item in self.case.get("reads", []):
            named = re.fullmatch(r"(?:other_)?([a-z]+)\d*", item)
            if named is None:
                raise ValueError(f"{self.case['slug']}: what is {item}?")
            word = "bin" if named[1] in ("b", "k", "q", "r") else named[1]
            found.append([word, f"${item}"])
        return self.calls(found)


def stories() -> tuple[world.Company, list[tuple[str, Story]]]:
    """The company, and workflow and story of every case."""
    words = yaml.safe_load((ROOT / "words.yaml").read_text())
    cases = case_pool.load_cases(ROOT, PLACES)
    by_place = {place: case["facts"] for _, case, place in cases}
    company = world.found(words)
    ids = {place: world.settle(company, by_place[place], place) for place in sorted(by_place)}
    rest = sorted(set(range(PLACES.count)) - set(by_place))
    near = [world.settle(company, world.neighbour(words, place), place)["lot"] for place in rest]
    strange = [ids[place][name] for place in sorted(by_place) for name in by_place[place].get("strange", [])]  # fmt: skip
    world.strangers(company, strange, near)
    world.desk_history(company)
    new = {"approval": company.next_id("controller_approvals", "CA")}
    named = {case["slug"]: ids[place] for _, case, place in cases}
    return company, [
        (workflow, Story(case, {**case_pool.others(named, case), **ids[place], **new}))
        for workflow, case, place in cases
    ]


def state_check(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The final state, but for generated ids and free text of the rows that the calls write."""
    tools = {call["tool"] for call in calls}
    refs: dict[str, str] = {}
    if "ask_controller_approval" in tools:
        refs = {f"{CITES[tool]}.approval_id": "controller_approvals" for tool in CITES if tool in tools}  # fmt: skip
    return case_pool.state_check(tools, NEW_ROWS, refs, FREE_TEXT)


def pointed_checks(story: Story, writes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the state check implies and a person wants to read in a verdict by its own name."""
    checks: list[dict[str, Any]] = []
    called = {call["tool"]: call["arguments"] for call in writes}
    for tool, table in CITES.items():
        if "approval_id" in called.get(tool, {}):
            query = (
                f"SELECT count(*) = 1 FROM {table} JOIN controller_approvals USING (approval_id)"
                " WHERE answer = 'granted' AND asked_at >= '2026-11-12'"
            )
            checks.append(case_pool.sql_check("cites its approval", query))
    if "post_amount" in called:
        posted = called["post_amount"]
        query = (
            "SELECT count(*) = 1 FROM merchant_postings WHERE posted_on = '2026-11-12'"
            f" AND kind = '{posted['kind']}' AND record = '{posted['record']}' AND amount = {posted['amount']}"
        )
        checks.append(case_pool.sql_check("posted once", query))
    if "adjust_stock" in called or "move_stock" in called:
        lot = (called.get("adjust_stock") or called["move_stock"])["lot_id"]
        query = f"SELECT count(*) > 0 FROM stock_journal WHERE lot_id = '{lot}' AND at >= '2026-11-12'"  # fmt: skip
        checks.append(case_pool.sql_check("in the journal", query))
    records = (
        ("outbound", "other_ob", "outbounds", "outbound_id"),
        ("inbound", "other_ib", "inbounds", "inbound_id"),
        ("lot", "other_lot", "bin_stock", "lot_id"),
    )
    wrong = case_pool.wrong_calls(story.case, story.calls)
    checks += case_pool.others_untouched(story.ids, records, NEW_ROWS, writes, wrong)
    if not writes:
        tables = ["bin_stock", "outbounds", "quarantine_cases", "count_sheets", "stock_adjustments", "merchant_postings"]  # fmt: skip
        checks.append(case_pool.nothing_happened(tables))
    return checks


def private_part(task_id: str, story: Story) -> dict[str, Any]:
    case = story.case
    writes = story.calls(case.get("writes", []))
    checks = [state_check(writes), *pointed_checks(story, writes)]
    checks += case_pool.reply_checks(case, story.text)
    if "rubric" in case:
        question, expect = case["rubric"]
        checks.append({"name": "asked", "kind": "rubric", "question": question, "expect": expect})
    misses = case_pool.played(case["misses"], story.calls)
    if all(call["tool"] == "escalate_to_team" for call in writes):
        misses += idle_misses(story, told=not writes)
    return {
        "task": task_id,
        "golden": {"actions": [*story.reads(), *writes], "reply": story.text(case["reply"])},
        "checks": checks,
        "extra_write": story.calls([case["extra"]])[0],
        "near_misses": misses,
        "empty": "fails",
    }


def idle_misses(story: Story, *, told: bool) -> list[dict[str, Any]]:
    """Where the desk may do nothing itself: busy work in the side tables, and, `told`, the tempting runs told openly."""
    about = story.case.get("about", story.case["says"][0])
    busy = {
        "hands it to anybody": [["up", "other", about]],
        "hands it to the shift": [["up", "shift_office", about]],
        "hands it to quality": [["up", "quality", about]],
        "hands it to accounts": [["up", "accounts", about]],
        "asks the controller": [["ask", "adjustment", about, 50.0]],
        "sends a notice all the same": [["notice", "adjusted", about]],
    }
    right = story.case.get("writes")
    runs = {name: run for name, run in busy.items() if run != right}
    found = case_pool.played(runs, story.calls)
    if told:
        reply = story.text(f"Done, $person. {about} is settled as you wished.")
        found = case_pool.played(story.case["misses"], story.calls, reply) + found
    return found


def parts_of(workflow: str, story: Story) -> case_pool.Parts:
    """The task's three files, by folder."""
    case, task_id = story.case, f"{NAME}/{story.case['slug']}"
    at = "of Ankerhof's floor staff" if "floor" in case["facts"] else "of $firm"
    return {
        "world/tasks": {
            "id": task_id,
            "opening": story.text(case["opening"]),
            "limits": LIMITS,
            "tags": {"workflow": workflow, "failure_mode": case["mode"], "split": "train"},
        },
        "user": {
            "task": task_id,
            "context": story.text(f"You are $person {at}, $email. {case['context']}"),
            "script": story.lines(ALWAYS_SAYS),
        },
        "private": private_part(task_id, story),
    }


def files() -> Iterator[tuple[Path, str]]:
    """Every file that is written, with its text."""
    company, found = stories()
    yield ROOT / "world/seed.sql", world.seed_sql(company)
    parts: list[tuple[Case, case_pool.Parts]] = [
        (story.case, parts_of(workflow, story)) for workflow, story in found
    ]
    yield from case_pool.texts_of(ROOT, parts)


if __name__ == "__main__":
    sys.exit(case_pool.main(ROOT, __doc__, files))
