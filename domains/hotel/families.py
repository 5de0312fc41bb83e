"""Write the seed rows and the tasks of the hotels' guest services from their cases.

Each file in cases/ is one workflow: its tasks with the facts of a party, what the guest says, what is right, and the runs
that look right. A call is a list of a word of CALLS and its arguments; $names stand for ids of the party.
`python domains/hotel/families.py` writes world/seed.sql, world/tasks, user and private; `--check` fails when what is
committed differs. With `--judged` the tasks that have a `rubric` ask a judge as well; a grader without a judge does not
start on such tasks, so what is committed has none. company.py makes the rows.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from string import Template
from typing import Any

import company as world
import yaml

ROOT = Path(__file__).resolve().parent
PLACES = 112
"""Parties; 80 of them for cases, the others are strangers. Those who fill the rooms of tonight come after."""
STEP, START = 37, 11
"""Cases are spread over the places by a step without common divisor."""
MOST_CASES = 6
"""Of one workflow."""
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
FREE_TEXT = {
    "report_defect": "defects.detail",
    "write_log": "logbook.detail",
    "hand_over": "handovers.note",
}
PARTS = ("world/tasks", "user", "private")
Case = dict[str, Any]
ALWAYS_SAYS = [
    {"when": r"(?i)e-?mail", "say": "It's $email."},
    {
        "when": r"(?i)\b(confirm|shall I|should I|would you like|agree|is that (ok|all right))\b",
        "say": "Yes, go ahead.",
    },
]


class Story:
    """One case with its party: the names of its texts and calls stand for ids."""

    def __init__(self, case: Case, ids: dict[str, str]):
        self.case, self.ids = case, ids

    def text(self, value: str) -> str:
        """With ids in place of names; KeyError for an unknown name."""
        return Template(value).substitute(self.ids).strip()

    def calls(self, written: list[list[Any]]) -> list[dict[str, Any]]:
        return [self._call(word, values) for word, *values in written]

    def _call(self, word: str, values: list[Any]) -> dict[str, Any]:
        tool, order = CALLS[word]
        names = order.split()
        if len(values) > len(names):
            raise ValueError(f"{self.case['slug']}: too many arguments for {word}: {values}")
        left_out = [SELDOM_GIVEN[name] for name in names[len(values) :] if name in SELDOM_GIVEN]
        given = zip(names, map(self._value, [*values, *left_out]), strict=False)
        return {"tool": tool, "arguments": dict(given)}

    def _value(self, value: Any) -> Any:
        if isinstance(value, date):
            return value.isoformat()
        return self.text(value) if isinstance(value, str) else value

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


def load() -> list[tuple[str, Case, int]]:
    """Workflow, case and place of every case."""
    found: list[tuple[str, Case, int]] = []
    for number, workflow in enumerate(yaml.safe_load((ROOT / "cases/order.yaml").read_text())):
        path = ROOT / "cases" / f"{workflow}.yaml"
        cases = yaml.safe_load(path.read_text())["cases"]
        if len(cases) > MOST_CASES:
            raise ValueError(f"{path}: more than {MOST_CASES} cases")
        for index, case in enumerate(cases):
            found.append((workflow, case, ((number * MOST_CASES + index) * STEP + START) % PLACES))
    return found


def stories() -> tuple[world.Company, list[tuple[str, str, Story]]]:
    """The company, and workflow, slug and story of every case."""
    words = yaml.safe_load((ROOT / "words.yaml").read_text())
    cases = load()
    by_place = {place: case["facts"] for _, case, place in cases}
    if len(by_place) < len(cases):
        raise ValueError("two cases have one place")
    company = world.found(words)
    ids = {place: world.settle(company, by_place[place], place) for place in sorted(by_place)}
    told = len(company.rows["stays"])
    for place in sorted(set(range(PLACES)) - set(by_place)):
        world.settle(company, world.neighbour(words, place), place, last=True)
    _fill_rooms(company, words)
    world.history(company, told)
    signoff = {"signoff": company.next_id("duty_signoffs", "DS")}
    named: dict[str, dict[str, str]] = {case["slug"]: ids[place] for _, case, place in cases}
    found: list[tuple[str, str, Story]] = []
    for workflow, case, place in cases:
        others = {f"other_{name}": value for name, value in named.get(case.get("other", ""), {}).items()}  # fmt: skip
        names = {**others, **ids[place], **signoff, **_free_rooms(company, case["facts"])}
        found.append((workflow, case["slug"], Story(case, names)))
    return company, found


def _fill_rooms(company: world.Company, words: dict[str, Any]) -> None:
    """Guests for the rooms of tonight, but for those that are to stay free."""
    place = PLACES
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
    check: dict[str, Any] = {"name": "final state", "kind": "state"}
    keys = {NEW_ROWS[tool][0]: NEW_ROWS[tool][1] for tool in NEW_ROWS if tool in tools}
    if keys:
        check["keys"] = keys
    if {"ask_duty_manager", "grant_allowance"} <= tools:
        check["refs"] = {"folio_lines.signoff_id": "duty_signoffs"}
    texts = [column for tool, column in FREE_TEXT.items() if tool in tools]
    return {**check, "unstable": texts} if texts else check


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
        checks.append({"name": "cites its sign-off", "kind": "sql", "query": query, "expect": True})
    if "cancel_stay" in called:
        stay = called["cancel_stay"]["stay_id"]
        query = (
            "SELECT coalesce(sum(amount), 0) >= 0 AND (SELECT status = 'cancelled' FROM stays"
            f" WHERE stay_id = '{stay}') FROM folio_lines WHERE stay_id = '{stay}'"
        )
        checks.append({"name": "no money is kept", "kind": "sql", "query": query, "expect": True})
    for name, table in (("stay", "stays"), ("block", "group_blocks"), ("item", "found_items")):
        if f"other_{name}" in story.ids:
            where = {f"{name}_id": story.ids[f"other_{name}"]}
            checks.append(
                {
                    "name": f"the other {name}",
                    "kind": "untouched",
                    "tables": [table],
                    "where": where,
                }
            )
    if not writes:
        tables = ["stays", "folio_lines", "stay_vouchers", "group_blocks", "found_items"]
        checks.append({"name": "nothing happened", "kind": "untouched", "tables": tables})
    return checks


def money_pattern(amount: float) -> str:
    """A regular expression for the ways in which people write an amount: 24.50, 24.5, 24,50; 162 or 162.00."""
    whole, cents = f"{amount:.2f}".split(".")
    if len(whole) > 3:
        whole = f"{whole[:-3]}[.,' ]?{whole[-3:]}"
    if cents == "00":
        return rf"\b{whole}([.,]00?)?\b"
    last = f"{cents[1]}?" if cents[1] == "0" else cents[1]
    return rf"\b{whole}[.,]{cents[0]}{last}\b"


def private_part(task_id: str, story: Story, *, judged: bool) -> dict[str, Any]:
    case = story.case
    writes = story.calls(case.get("writes", []))
    says: dict[str, Any] = {"name": "names what matters", "kind": "reply"}
    says["contains_all"] = [story.text(str(word)) for word in case["says"]]
    if "never_says" in case:
        says["contains_none"] = [story.text(word) for word in case["never_says"]]
    if "money" in case:
        says["matches"] = money_pattern(case["money"])
    checks = [state_check(writes), *pointed_checks(story, writes), says]
    if judged and "rubric" in case:
        checks.append({"name": "reads right", "kind": "rubric", "question": case["rubric"]})
    misses = [
        {"name": f"plays: {name}", "actions": story.calls(calls)}
        for name, calls in case["misses"].items()
    ]
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
    told = [
        {"name": f"plays and tells: {name}", "actions": story.calls(calls), "reply": reply}
        for name, calls in misses.items()
    ]
    busy = {
        "hands it over all the same": [["over", "other", about]],
        "hands it to the rooms division": [["over", "rooms_division", about]],
        "leaves a remark": [["log", "remark", about]],
        "writes a letter": [["letter", "folio_corrected", about]],
    }
    return told + [
        {"name": f"plays: {name}", "actions": story.calls(calls)} for name, calls in busy.items()
    ]


def parts_of(workflow: str, slug: str, story: Story, *, judged: bool) -> dict[str, dict[str, Any]]:
    """The task's three files, by folder."""
    case, task_id = story.case, f"{NAME}/{slug}"
    lines = [{"when": when, "say": say} for when, say in case.get("script", [])] + ALWAYS_SAYS
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
            "script": [{"when": line["when"], "say": story.text(line["say"])} for line in lines],
        },
        "private": private_part(task_id, story, judged=judged),
    }


def files(*, judged: bool) -> Iterator[tuple[Path, str]]:
    """Every file that is written, with its text; `judged` takes the rubrics in."""
    company, found = stories()
    yield ROOT / "world/seed.sql", world.seed_sql(company)
    for workflow, slug, story in found:
        for folder, content in parts_of(workflow, slug, story, judged=judged).items():
            text = yaml.dump(content, Dumper=Plain, sort_keys=False, allow_unicode=True, width=100)
            if folder == "private":
                text = f"# Turns on: {story.case['point']}\n{text}"
            yield ROOT / folder / f"{slug}.yaml", text


class Plain(yaml.SafeDumper):
    """Without anchors, which the services refuse."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the committed files")
    parser.add_argument(
        "--judged", action="store_true", help="with rubrics, for a grader with a judge"
    )
    arguments = parser.parse_args()
    check, wanted = arguments.check, dict(files(judged=arguments.judged))
    known = {path for part in PARTS for path in (ROOT / part).glob("*.yaml")}
    different = sorted(
        path for path, text in wanted.items() if not path.exists() or path.read_text() != text
    ) + sorted(known - set(wanted))
    if check:
        for path in different:
            print(f"out of date: {path.relative_to(ROOT)}", file=sys.stderr)
        return 1 if different else 0
    for path in different:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path])
        else:
            path.unlink()
    print(f"{len(wanted)} files, {len(different)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
