"""Write the seed rows and the tasks of the hire desk from its cases.

Each file in cases/ is one workflow: its tasks with the facts of a party, what the caller says, what is right, and the runs
that look right. A call is a list of a word of CALLS and its arguments; $names stand for ids of the party.
`python domains/rental/families.py` writes world/seed.sql, world/tasks, user and private; `--check` fails when what is
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
PLACES = Places(count=149, step=41, start=17, most_cases=6)
"""Parties; 80 of them for cases, the others are strangers."""
NAME = "rental"
LIMITS = {
    "max_turns": 14,
    "max_tool_calls": 20,
    "max_turn_tokens": 1024,
    "max_total_tokens": 57344,
    "max_tool_seconds": 20,
}
CALLS = {
    "find": ("look_up_caller", "email"),
    "hirer": ("open_hirer", "hirer_id"),
    "hire": ("open_hire", "hire_id"),
    "money": ("open_charges", "hire_id"),
    "card": ("rate_card", "depot"),
    "free": ("machines_free", "depot machine_class first_day last_day"),
    "trucks": ("truck_space", "depot first_day last_day"),
    "reserve": ("reserve_machine", "hirer_id machine_id starts_on ends_on price site_zone deposit"),
    "settle": ("settle_deposit", "hire_id released"),
    "end": ("set_hire_end", "hire_id ends_on"),
    "drop": ("drop_reservation", "hire_id"),
    "run": ("plan_run", "hire_id direction run_day half"),
    "charge": ("add_hire_charge", "hire_id item amount damage_id clearance_id"),
    "credit": ("give_hire_credit", "hire_id amount reason clearance_id"),
    "broken": ("report_breakdown", "hire_id symptom detail"),
    "swap": ("swap_machine", "hire_id machine_id"),
    "reference": ("set_order_reference", "invoice_id reference"),
    "right": ("set_ordering_right", "contact_id may_order"),
    "missing": ("flag_missing", "hire_id police_reference"),
    "ask": ("ask_branch_manager", "matter record amount"),
    "notice": ("send_hire_notice", "notice record contact_id"),
    "log": ("write_hire_log", "entry record detail"),
    "over": ("escalate_matter", "team record note contact_id"),
}
"""Tool and order of its arguments by the word that cases use."""
SELDOM_GIVEN = {"contact_id": "$me", "detail": "As the caller asked.", "note": "Please take over."}
"""What stands for arguments of notices, log entries and escalations that a case leaves out."""
NEW_ROWS = {
    "settle_deposit": ("hire_charges", ["hire_id", "item"]),
    "add_hire_charge": ("hire_charges", ["hire_id", "item"]),
    "give_hire_credit": ("hire_charges", ["hire_id", "item"]),
    "plan_run": ("truck_runs", ["hire_id", "direction"]),
    "report_breakdown": ("breakdowns", ["hire_id", "symptom"]),
    "ask_branch_manager": ("manager_clearances", ["matter", "record", "amount"]),
    "send_hire_notice": ("hire_notices", ["contact_id", "notice", "record"]),
    "write_hire_log": ("hire_log", ["record", "entry"]),
    "escalate_matter": ("escalated_matters", ["contact_id", "team", "record"]),
}
"""Tables with generated ids, and the natural keys of their rows, by the tool that writes them."""
FREE_TEXT = {
    "report_breakdown": "breakdowns.detail",
    "write_hire_log": "hire_log.detail",
    "escalate_matter": "escalated_matters.note",
}
ALWAYS_SAYS = [
    {"when": r"(?i)e-?mail", "say": "It's $email."},
    {
        "when": r"(?i)\b(confirm|shall I|should I|would you like|agree|is that (ok|all right))\b",
        "say": "Yes, go ahead.",
    },
]


class Story(case_pool.Story):
    """A case of the hire desk."""

    def calls(self, written: list[list[Any]]) -> list[dict[str, Any]]:
        return [self._call(word, values) for word, *values in written]

    def _call(self, word: str, values: list[Any]) -> dict[str, Any]:
        tool, order = CALLS[word]
        names = order.split()
        if len(values) > len(names):
            raise ValueError(f"{self.case['slug']}: too many arguments for {word}: {values}")
        left_out = [SELDOM_GIVEN[name] for name in names[len(values) :] if name in SELDOM_GIVEN]
        given = zip(names, map(self.value, [*values, *left_out]), strict=False)
        return {"tool": tool, "arguments": {name: v for name, v in given if v is not None}}

    def reads(self) -> list[dict[str, Any]]:
        """Looking the caller up, and calls for what the case looks at: records by name, or whole calls."""
        found: list[list[Any]] = [["find", "$email"]]
        for item in self.case.get("reads", []):
            if isinstance(item, list):
                found.append(item)
            else:
                named = re.fullmatch(r"(other_)?([a-z]+)(\d*)", item)
                if named is None:
                    raise ValueError(f"{self.case['slug']}: what is {item}?")
                other, word, number = named.groups("")
                record = "hire" if word == "money" else word
                found.append([word, f"${other}{record}{number}"])
        return self.calls(found)


def stories() -> tuple[world.Company, list[tuple[str, Story]]]:
    """The company, and workflow and story of every case."""
    words = yaml.safe_load((ROOT / "words.yaml").read_text())
    cases = case_pool.load_cases(ROOT, PLACES)
    by_place = {place: case["facts"] for _, case, place in cases}
    company = world.found(words)
    ids = {place: world.settle(company, by_place[place], place) for place in sorted(by_place)}
    told = len(company.rows["hires"])
    world.fill(company, sorted(set(range(PLACES.count)) - set(by_place)), PLACES.count)
    world.history(company, told)
    made = {
        "clearance": company.next_id("manager_clearances", "MC"),
        "new_hire": company.next_id("hires", "RH"),
    }
    named = {case["slug"]: ids[place] for _, case, place in cases}
    found: list[tuple[str, Story]] = []
    for workflow, case, place in cases:
        free = _free_machines(company, case["facts"])
        names = {**case_pool.others(named, case), **ids[place], **made, **free}
        found.append((workflow, Story(case, names)))
    return company, found


def _free_machines(company: world.Company, facts: world.Facts) -> dict[str, str]:
    """Names for machines of the class and days under `free`: `free` and `free2` are tested to the end, `untested` is not."""
    if "free" not in facts:
        return {}
    depot, kind, first, last = facts["free"]
    tested, untested = company.free(depot, kind, world.day(first), world.day(last))
    found = {world.numbered("free", index): machine for index, machine in enumerate(tested)}
    return found | ({"untested": untested[0]} if untested else {})


def state_check(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The final state, but for generated ids and free text of the rows that the calls write."""
    tools = {call["tool"] for call in calls}
    cites = "ask_branch_manager" in tools and tools & {"give_hire_credit", "add_hire_charge"}
    refs = {"hire_charges.clearance_id": "manager_clearances"} if cites else {}
    return case_pool.state_check(tools, NEW_ROWS, refs, FREE_TEXT)


def pointed_checks(story: Story, writes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the state check implies and a person wants to read in a verdict by its own name."""
    checks: list[dict[str, Any]] = []
    called = {call["tool"]: call["arguments"] for call in writes}
    if "clearance_id" in called.get("give_hire_credit", {}):
        hire = called["give_hire_credit"]["hire_id"]
        query = (
            "SELECT count(*) = 1 FROM hire_charges JOIN manager_clearances USING (clearance_id)"
            f" WHERE hire_id = '{hire}' AND record = hire_id AND decision = 'granted'"
            " AND hire_charges.amount = -manager_clearances.amount"
        )
        checks.append(case_pool.sql_check("cites its clearance", query))
    if "reserve_machine" in called:
        given = called["reserve_machine"]
        query = (
            "SELECT bool_and(tested_until >= ends_on) FROM hires JOIN machines USING (machine_id)"
            f" WHERE hirer_id = '{given['hirer_id']}' AND status = 'reserved'"
        )
        checks.append(case_pool.sql_check("tested to the end", query))
    records = [("hire", "other_hire", "hires", "hire_id")]
    wrong = case_pool.wrong_calls(story.case, story.calls)
    checks += case_pool.others_untouched(story.ids, records, NEW_ROWS, writes, wrong)
    if not writes:
        idle = [
            "hires",
            "hire_charges",
            "deposits_held",
            "truck_runs",
            "hire_invoices",
            "hirer_contacts",
        ]
        checks.append(case_pool.nothing_happened(idle))
    return checks


def private_part(task_id: str, story: Story) -> dict[str, Any]:
    case = story.case
    writes = story.calls(case.get("writes", []))
    checks = [state_check(writes), *pointed_checks(story, writes)]
    checks += case_pool.reply_checks(case, story.text)
    if "rubric" in case:
        checks.append({"name": "reads right", "kind": "rubric", "question": case["rubric"]})
    misses = case_pool.played(case["misses"], story.calls)
    if all(call["tool"] == "escalate_matter" for call in writes):
        misses += idle_misses(story, writes)
    return {
        "task": task_id,
        "golden": {"actions": [*story.reads(), *writes], "reply": story.text(case["reply"])},
        "checks": checks,
        "extra_write": story.calls([case["extra"]])[0],
        "near_misses": misses,
        "empty": "fails",
    }


def idle_misses(story: Story, writes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Where the desk may do nothing itself: the tempting runs, told openly, and busy work in the side tables."""
    reply = story.text(f"Done, $person. {story.case['says'][0]} is settled as you wished.")
    busy = {
        "passes it on all the same": [["over", "key_accounts", "$hirer"]],
        "passes it to the accounts team": [["over", "accounts", "$hirer"]],
        "leaves a remark": [["log", "remark", "$hirer"]],
        "writes a notice": [["notice", "credit_given", "$hirer"]],
    }
    told = case_pool.played(story.case["misses"], story.calls, reply) if not writes else []
    return told + case_pool.played(busy, story.calls)


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
