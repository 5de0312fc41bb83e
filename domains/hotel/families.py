"""Write the seed rows and the tasks of the hotels' guest services from their cases.

Each file in cases/ is one workflow: its tasks with the facts of a party, what the guest says, what is right, and the runs
that look right. A call is a list of a word of CALLS and its arguments; $names stand for ids of the party.
`python domains/hotel/families.py` writes world/seed.sql, world/tasks, user and private; `--check` fails when what is
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
from envfarm_cli.authoring.case_pool import Places

ROOT = Path(__file__).resolve().parent
PLACES = Places(count=112, step=37, start=11, most_cases=6)
"""Parties; 84 of them for cases, the others are strangers. Those who fill the rooms of tonight come after."""
NAME = "hotel"
LIMITS = {
    "max_turns": 14,
    "max_tool_calls": 20,
    "max_turn_tokens": 1024,
    "max_total_tokens": 57344,
    "max_tool_seconds": 20,
}
CALLS = {
    "find": ("find_guest", "email"),
    "guest": ("show_guest", "guest_id"),
    "stay": ("show_stay", "stay_id"),
    "folio": ("show_folio", "stay_id"),
    "block": ("show_block", "block_id"),
    "nights": ("list_open_nights", "house arrive depart"),
    "rooms": ("list_free_rooms", "house"),
    "things": ("list_found_items", "house since"),
    "cancel": ("cancel_stay", "stay_id"),
    "dates": ("change_dates", "stay_id arrive depart"),
    "hour": ("set_checkout_hour", "stay_id hour"),
    "move": ("move_to_room", "stay_id room"),
    "defect": ("report_defect", "room problem urgent detail"),
    "fee": ("charge_fee", "stay_id fee amount"),
    "allow": ("grant_allowance", "stay_id amount reason signoff_id"),
    "back": ("pay_back", "stay_id amount"),
    "redeem": ("redeem_voucher", "voucher_id stay_id"),
    "points": ("credit_points", "stay_id points"),
    "resize": ("resize_block", "block_id held"),
    "release": ("release_item", "item_id stay_id how"),
    "bill": ("bill_to_firm", "stay_id item"),
    "ask": ("ask_duty_manager", "matter record amount"),
    "letter": ("send_letter", "letter record guest_id"),
    "log": ("write_log", "entry record detail"),
    "over": ("hand_over", "desk record note guest_id"),
}
"""Tool and order of its arguments by the word that cases use."""
SELDOM_GIVEN = {"guest_id": "$guest", "detail": "As the guest asked.", "note": "Please take over."}
"""What stands for arguments of letters, log entries and handovers that a case leaves out."""
NEW_ROWS = {
    "charge_fee": ("folio_lines", ["stay_id", "item"]),
    "grant_allowance": ("folio_lines", ["stay_id", "item"]),
    "pay_back": ("folio_lines", ["stay_id", "item"]),
    "redeem_voucher": ("folio_lines", ["stay_id", "item"]),
    "credit_points": ("star_points", ["stay_id"]),
    "report_defect": ("defects", ["room", "problem"]),
    "ask_duty_manager": ("duty_signoffs", ["matter", "record", "amount"]),
    "send_letter": ("letters", ["guest_id", "letter", "record"]),
    "write_log": ("logbook", ["record", "entry"]),
    "hand_over": ("handovers", ["guest_id", "desk", "record"]),
}
"""Tables with generated ids, and the natural keys of their rows, by the tool that writes them."""
WRITES = NEW_ROWS | {"release_item": ("found_items", ["item_id"])}
"""Also tools that write elsewhere than their arguments suggest: where, and under which of them."""
FREE_TEXT = {
    "report_defect": "defects.detail",
    "write_log": "logbook.detail",
    "hand_over": "handovers.note",
}
ALWAYS_SAYS = [
    {"when": r"(?i)e-?mail", "say": "It's $email."},
    {
        "when": r"(?i)\b(confirm|shall I|should I|would you like|agree|is that (ok|all right))\b",
        "say": "Yes, go ahead.",
    },
]


class Story(case_pool.Story):
    """A case of guest services."""

    def calls(self, written: list[list[Any]]) -> list[dict[str, Any]]:
        return [self._call(word, values) for word, *values in written]

    def _call(self, word: str, values: list[Any]) -> dict[str, Any]:
        tool, order = CALLS[word]
        names = order.split()
        if len(values) > len(names):
            raise ValueError(f"{self.case['slug']}: too many arguments for {word}: {values}")
        left_out = [SELDOM_GIVEN[name] for name in names[len(values) :] if name in SELDOM_GIVEN]
        given = zip(names, map(self.value, [*values, *left_out]), strict=False)
        return {"tool": tool, "arguments": dict(given)}

    def reads(self) -> list[dict[str, Any]]:
        """Looking the guest up, and calls for what the case looks at: records by name, or whole calls."""
        found: list[list[Any]] = [["find", "$email"]]
        for item in self.case.get("reads", []):
            if isinstance(item, list):
                found.append(item)
            else:
                named = re.fullmatch(r"(other_)?([a-z]+)(\d*)", item)
                if named is None:
                    raise ValueError(f"{self.case['slug']}: what is {item}?")
                other, word, number = named.groups("")
                record = "stay" if word == "folio" else word
                found.append([word, f"${other}{record}{number}"])
        return self.calls(found)


def stories() -> tuple[world.Company, list[tuple[str, Story]]]:
    """The company, and workflow and story of every case."""
    words = yaml.safe_load((ROOT / "words.yaml").read_text())
    cases = case_pool.load_cases(ROOT, PLACES)
    by_place = {place: case["facts"] for _, case, place in cases}
    company = world.found(words)
    ids = {place: world.settle(company, by_place[place], place) for place in sorted(by_place)}
    told = len(company.rows["stays"])
    for place in sorted(set(range(PLACES.count)) - set(by_place)):
        world.settle(company, world.neighbour(words, place), place, last=True)
    _fill_rooms(company, words)
    world.history(company, told)
    signoff = {"signoff": company.next_id("duty_signoffs", "DS")}
    named = {case["slug"]: ids[place] for _, case, place in cases}
    found: list[tuple[str, Story]] = []
    for workflow, case, place in cases:
        free = _free_rooms(company, case["facts"])
        names = {**case_pool.others(named, case), **ids[place], **signoff, **free}
        found.append((workflow, Story(case, names)))
    return company, found


def _fill_rooms(company: world.Company, words: dict[str, Any]) -> None:
    """Guests for the rooms of tonight, but for those that are to stay free."""
    place = PLACES.count
    for house, free in words["free_tonight"].items():
        for kind, left in zip(world.KINDS, free, strict=True):
            while len(company.free_tonight(house, kind)) > left:
                world.settle(company, world.tonight(words, place, house, kind), place, last=True)
                place += 1


def _free_rooms(company: world.Company, facts: world.Facts) -> dict[str, str]:
    """Names for free rooms: `free` and `free2` of the booked kind, `free_up` of the next higher one that has any."""
    if not facts.get("stays"):
        return {}
    house, kind = facts["stays"][0]["house"], facts["stays"][0].get("kind", "standard")
    same, *higher = [
        company.free_tonight(house, k) for k in list(world.KINDS)[list(world.KINDS).index(kind) :]
    ]
    found = {world.numbered("free", index): room for index, room in enumerate(same)}
    for rooms in filter(None, higher):
        return {**found, "free_up": rooms[0]}
    return found


def state_check(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The final state, but for generated ids and free text of the rows that the calls write."""
    tools = {call["tool"] for call in calls}
    cites = {"ask_duty_manager", "grant_allowance"} <= tools
    refs = {"folio_lines.signoff_id": "duty_signoffs"} if cites else {}
    return case_pool.state_check(tools, NEW_ROWS, refs, FREE_TEXT)


def pointed_checks(story: Story, writes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the state check implies and a person wants to read in a verdict by its own name."""
    checks: list[dict[str, Any]] = []
    called = {call["tool"]: call["arguments"] for call in writes}
    if "signoff_id" in called.get("grant_allowance", {}):
        stay = called["grant_allowance"]["stay_id"]
        query = (
            "SELECT count(*) = 1 FROM folio_lines JOIN duty_signoffs USING (signoff_id)"
            f" WHERE stay_id = '{stay}' AND record = stay_id AND decision = 'granted'"
            " AND folio_lines.amount = -duty_signoffs.amount"
        )
        checks.append(case_pool.sql_check("cites its sign-off", query))
    if "cancel_stay" in called:
        stay = called["cancel_stay"]["stay_id"]
        query = (
            "SELECT coalesce(sum(amount), 0) >= 0 AND (SELECT status = 'cancelled' FROM stays"
            f" WHERE stay_id = '{stay}') FROM folio_lines WHERE stay_id = '{stay}'"
        )
        checks.append(case_pool.sql_check("no money is kept", query))
    records = (
        ("stay", "other_stay", "stays", "stay_id"),
        ("block", "other_block", "group_blocks", "block_id"),
        ("item", "other_item", "found_items", "item_id"),
    )
    wrong = case_pool.wrong_calls(story.case, story.calls)
    checks += case_pool.others_untouched(story.ids, records, WRITES, writes, wrong)
    if not writes:
        tables = [
            "stays",
            "folio_lines",
            "stay_vouchers",
            "group_blocks",
            "found_items",
            "star_points",
        ]
        checks.append(case_pool.nothing_happened(tables))
    return checks


def private_part(task_id: str, story: Story) -> dict[str, Any]:
    case = story.case
    writes = story.calls(case.get("writes", []))
    checks = [state_check(writes), *pointed_checks(story, writes)]
    checks += case_pool.reply_checks(case, story.text)
    if "rubric" in case:
        checks.append({"name": "reads right", "kind": "rubric", "question": case["rubric"]})
    misses = case_pool.played(case["misses"], story.calls)
    if not writes:
        misses += idle_misses(story, case["misses"])
    return {
        "task": task_id,
        "golden": {"actions": [*story.reads(), *writes], "reply": story.text(case["reply"])},
        "checks": checks,
        "extra_write": story.calls([case["extra"]])[0],
        "near_misses": misses,
        "empty": "fails",
    }


def idle_misses(story: Story, misses: dict[str, list[list[Any]]]) -> list[dict[str, Any]]:
    """Where nothing may change: the tempting runs, told openly, and busy work in the side tables."""
    about = story.case["says"][0]
    reply = story.text(f"Done, $person. {about} is settled as you wished.")
    busy = {
        "hands it over all the same": [["over", "other", about]],
        "hands it to the rooms division": [["over", "rooms_division", about]],
        "leaves a remark": [["log", "remark", about]],
        "writes a letter": [["letter", "folio_corrected", about]],
    }
    return case_pool.played(misses, story.calls, reply) + case_pool.played(busy, story.calls)


def parts_of(workflow: str, story: Story) -> case_pool.Parts:
    """The task's three files, by folder."""
    case, task_id = story.case, f"{NAME}/{story.case['slug']}"
    return {
        "world/tasks": {
            "id": task_id,
            "opening": story.text(case["opening"]),
            "limits": LIMITS,
            "tags": {"workflow": workflow, "failure_mode": case["mode"], "split": "eval"},
        },
        "user": {
            "task": task_id,
            "context": story.text(f"You are $person, $email. {case['context']}"),
            "script": story.lines(ALWAYS_SAYS),
        },
        "private": private_part(task_id, story),
    }


def files() -> Iterator[tuple[Path, str]]:
    """Every file that is written, with its text."""
    company, found = stories()
    yield ROOT / "world/seed.sql", world.seed_sql(company)
    yield from case_pool.texts_of(ROOT, [(s.case, parts_of(w, s)) for w, s in found])


if __name__ == "__main__":
    sys.exit(case_pool.main(ROOT, __doc__, files))
