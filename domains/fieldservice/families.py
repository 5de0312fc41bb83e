"""Write the seed rows and the tasks of the service desk from its cases.

Each file in cases/ is one workflow: its tasks with the facts of the household, what the caller says, what is right, and
the runs that look right. Calls are written as [tool, argument, ...]; $names stand for ids of the household.
`python domains/fieldservice/families.py` writes world/seed.sql, world/tasks, user and private; `--check` fails when
what is committed differs. company.py makes the rows.
"""

import random
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import company as world
import yaml

from envfarm_cli.authoring import case_pool
from envfarm_cli.authoring.case_pool import Case, Places

ROOT = Path(__file__).resolve().parent
SEED = 20260312
PLACES = Places(count=140, step=37, start=11, most_cases=5)
"""Households; 80 of them for cases, the others are neighbours."""
NAME = "fieldservice"
LIMITS = {
    "max_turns": 14,
    "max_tool_calls": 20,
    "max_turn_tokens": 1024,
    "max_total_tokens": 49152,
    "max_tool_seconds": 20,
}
SIGNATURES = {
    "open_job": ("unit_id", "contact_id", "kind", "priority", "description"),
    "book_visit": ("job_id", "technician_id", "day", "half"),
    "cancel_job": ("job_id",),
    "set_unit_status": ("unit_id", "status"),
    "reserve_part": ("job_id", "part_id", "quantity"),
    "request_approval": ("topic", "reference", "amount"),
    "credit_invoice": ("invoice_id", "amount", "reason", "approval_id"),
    "move_due_date": ("invoice_id", "due_on"),
    "end_contract": ("contract_id", "ends_on"),
    "notify": ("contact_id", "template", "reference"),
    "write_journal": ("reference", "action", "detail"),
    "escalate": ("contact_id", "topic", "reference", "note"),
    "get_customer": ("customer_id",),
    "get_unit": ("unit_id",),
    "get_job": ("job_id",),
    "get_invoice": ("invoice_id",),
    "get_contract": ("contract_id",),
    "find_slots": ("region", "day"),
    "find_parts": ("model",),
    "find_contact": ("email",),
}
NEW_ROWS = {
    "notify": ("notifications", ["contact_id", "template", "reference"]),
    "write_journal": ("journal", ["reference", "action"]),
    "escalate": ("escalations", ["contact_id", "topic", "reference"]),
    "request_approval": ("approvals", ["topic", "reference", "amount"]),
    "credit_invoice": ("credits", ["invoice_id", "reason"]),
}
"""Tables with generated ids, and the natural keys of their rows, by the tool that writes them."""
WRITES = NEW_ROWS | {"book_visit": ("slots", ["job_id"]), "open_job": ("jobs", ["unit_id"])}
"""Also tools that write elsewhere than their arguments suggest: where, and under which of them."""
FREE_TEXT = {
    "open_job": "jobs.description",
    "write_journal": "journal.detail",
    "escalate": "escalations.note",
}
ALWAYS_SAYS = [
    {"when": r"(?i)e-?mail", "say": "It is $email."},
    {
        "when": r"(?i)\b(sure|confirm|shall I|should I|would you like|agree)\b",
        "say": "Yes, please do.",
    },
]


class Story(case_pool.Story):
    """A case of the service desk with its household."""

    def __init__(self, case: Case, ids: dict[str, str], company: world.Company):
        super().__init__(case, ids)
        self.company = company
        self.region, facts = ids["region"], case["facts"]
        self.kinds = [unit.get("kind", "gas_boiler") for unit in (facts, *facts.get("units", []))]

    def calls(self, written: list[list[Any]]) -> list[dict[str, Any]]:
        return [self._call(tool, values) for tool, *values in written]

    def _call(self, tool: str, values: list[Any]) -> dict[str, Any]:
        arguments = dict(zip(SIGNATURES[tool], map(self.value, values), strict=False))
        who = arguments.get("technician_id")
        if who in ("first", "untrained"):
            day, kind = (
                date.fromisoformat(arguments["day"]),
                self.kinds[self.case.get("on", 0)],
            )
            certified = who == "first"
            arguments["technician_id"] = self.company.free(
                self.region, kind, day, arguments["half"], certified
            )
        return {"tool": tool, "arguments": arguments}

    def reads(self) -> list[list[Any]]:
        """Calls for what the case looks at: names of ids, `parts`, or a day for the free slots."""
        found: list[list[Any]] = []
        for name in self.case.get("reads", []):
            if isinstance(name, date):
                found.append(["find_slots", "$region", name])
            elif name.startswith("parts"):
                found.append(["find_parts", f"$model{name.removeprefix('parts')}"])
            else:
                kind = name.removeprefix("other_").rstrip("23")
                found.append([f"get_{kind}", f"${name}"])
        return found


def stories() -> tuple[world.Company, list[tuple[str, str, Story]]]:
    """The company, and workflow, slug and story of every case."""
    words = yaml.safe_load((ROOT / "words.yaml").read_text())
    cases = case_pool.load_cases(ROOT, PLACES)
    by_place = {place: case["facts"] for _, case, place in cases}
    company = world.found(words, random.Random(SEED))
    ids = {
        # Those of cases first: they need their slots.
        place: world.settle(company, by_place[place], place)
        for place in sorted(by_place)
    }
    told = len(company.rows["invoices"])
    for place in sorted(set(range(PLACES.count)) - set(by_place)):
        world.settle(company, world.neighbour(words, place), place)
    world.office_history(company, company.rows["invoices"][told:])
    new = {
        "new_job": company.next_id("jobs", "J"),
        "approval": company.next_id("approvals", "A"),
    }
    named: dict[str, dict[str, str]] = {case["slug"]: ids[place] for _, case, place in cases}
    found: list[tuple[str, str, Story]] = []
    for workflow, case, place in cases:
        all_ids = {
            **case_pool.others(named, case),
            **ids[place],
            **new,
            "first": "first",
            "untrained": "untrained",
        }
        found.append((workflow, case["slug"], Story(case, all_ids, company)))
    return company, found


def state_check(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The final state, but for generated ids and free text of the rows that the calls write."""
    tools = {call["tool"] for call in calls}
    refs = {}
    if {"request_approval", "credit_invoice"} <= tools:
        refs = {"credits.approval_id": "approvals"}
    return case_pool.state_check(tools, NEW_ROWS, refs, FREE_TEXT)


def pointed_checks(story: Story, writes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the state check implies and a person wants to read in a verdict by its own name."""
    checks: list[dict[str, Any]] = []
    called = {call["tool"]: call["arguments"] for call in writes}
    if "approval_id" in called.get("credit_invoice", {}):
        invoice = called["credit_invoice"]["invoice_id"]
        query = (
            "SELECT count(*) = 1 FROM credits JOIN approvals USING (approval_id, amount)"
            f" WHERE invoice_id = '{invoice}' AND reference = invoice_id AND status = 'granted'"
        )
        checks.append(case_pool.sql_check("cites its approval", query))
    if called.get("set_unit_status", {}).get("status") == "isolated":
        unit = called["set_unit_status"]["unit_id"]
        query = (
            f"SELECT status = 'isolated' AND EXISTS (SELECT FROM journal WHERE reference = unit_id"
            f" AND action = 'safety') FROM units WHERE unit_id = '{unit}'"
        )
        checks.append(case_pool.sql_check("shut off, journalled", query))
    records = [
        (name, f"other_{name}", f"{name}s", f"{name}_id") for name in ("job", "invoice", "unit")
    ]
    wrong = case_pool.wrong_calls(story.case, story.calls)
    checks += case_pool.others_untouched(story.ids, records, WRITES, writes, wrong)
    if not writes:
        tables = ["jobs", "units", "invoices", "credits", "contracts"]
        checks.append(case_pool.nothing_happened(tables))
    return checks


def private_part(task_id: str, story: Story) -> dict[str, Any]:
    case = story.case
    writes = story.calls(case.get("writes", []))
    seen = story.calls([["find_contact", "$email"], *story.reads()])
    checks = [state_check(writes), *pointed_checks(story, writes)]
    checks += case_pool.reply_checks(case, story.text)
    misses = case_pool.played(case["misses"], story.calls)
    if not writes:
        misses += idle_misses(story, case["misses"])
    return {
        "task": task_id,
        "golden": {"actions": [*seen, *writes], "reply": story.text(case["reply"])},
        "checks": checks,
        "extra_write": story.calls([case["extra"]])[0],
        "near_misses": misses,
        "empty": "fails",
    }


def idle_misses(story: Story, misses: dict[str, list[list[Any]]]) -> list[dict[str, Any]]:
    """Where nothing may change: the tempting runs, told openly, and busy work in the side tables."""
    about = story.case["says"][0]
    reply = story.text(f"All done, $person. {about} is taken care of.")
    told = case_pool.played(misses, story.calls, reply)
    busy = {
        "hands it on all the same": [
            ["escalate", "$contact", "other", about, "The caller insists."]
        ],
        "hands it to dispatch": [
            ["escalate", "$contact", "dispatch", about, "The caller insists."]
        ],
        "leaves a remark": [["write_journal", about, "remark", "The caller insisted."]],
        "sends a notice": [["notify", "$contact", "visit_moved", about]],
    }
    return told + case_pool.played(busy, story.calls)


def parts_of(workflow: str, slug: str, story: Story) -> case_pool.Parts:
    """The task's three files, by folder."""
    case, task_id = story.case, f"{NAME}/{slug}"
    story.ids.setdefault("person", case["facts"]["person"])
    tags = {
        "workflow": workflow,
        "failure_mode": case["mode"],
        "split": "train",
    }
    user: dict[str, Any] = {
        "task": task_id,
        "context": story.text(f"You are $person, $email. {case['context']}"),
        "script": story.lines(ALWAYS_SAYS),
    }
    return {
        "world/tasks": {
            "id": task_id,
            "opening": story.text(case["opening"]),
            "limits": LIMITS,
            "tags": tags,
        },
        "user": user,
        "private": private_part(task_id, story),
    }


def files() -> Iterator[tuple[Path, str]]:
    """Every file that is written, with its text."""
    company, found = stories()
    yield ROOT / "world/seed.sql", world.seed_sql(company)
    parts = ((story.case, parts_of(workflow, slug, story)) for workflow, slug, story in found)
    yield from case_pool.texts_of(ROOT, parts)


if __name__ == "__main__":
    sys.exit(case_pool.main(ROOT, __doc__, files))
