"""Write the seed rows and the tasks of the service desk from its cases.

Each file in cases/ is one workflow: its tasks with the facts of the household, what the caller says, what is right, and
the runs that look right. Calls are written as [tool, argument, ...]; $names stand for ids of the household.
`python domains/fieldservice/families.py` writes world/seed.sql, world/tasks, user and private; `--check` fails when
what is committed differs. company.py makes the rows.
"""

import argparse
import random
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from string import Template
from typing import Any

import company as world
import yaml

ROOT = Path(__file__).resolve().parent
SEED = 20260312
PLACES = 140
"""Households; 80 of them for cases, the others are neighbours."""
STEP, START = 37, 11
"""Cases are spread over the places by a step without common divisor."""
MOST_CASES = 5
"""Of one workflow."""
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
FREE_TEXT = {
    "open_job": "jobs.description",
    "write_journal": "journal.detail",
    "escalate": "escalations.note",
}
PARTS = ("world/tasks", "user", "private")
Case = dict[str, Any]
ALWAYS_SAYS = [
    {"when": r"(?i)e-?mail", "say": "It is $email."},
    {
        "when": r"(?i)\b(sure|confirm|shall I|should I|would you like|agree)\b",
        "say": "Yes, please do.",
    },
]


class Story:
    """One case with its household: the names of its texts and calls stand for ids."""

    def __init__(self, case: Case, ids: dict[str, str], company: world.Company):
        self.case, self.ids, self.company = case, ids, company
        self.region, facts = ids["region"], case["facts"]
        self.kinds = [unit.get("kind", "gas_boiler") for unit in (facts, *facts.get("units", []))]

    def text(self, value: str) -> str:
        """With ids in place of names; KeyError for an unknown name."""
        return Template(value).substitute(self.ids).strip()

    def calls(self, written: list[list[Any]]) -> list[dict[str, Any]]:
        return [self._call(tool, values) for tool, *values in written]

    def _call(self, tool: str, values: list[Any]) -> dict[str, Any]:
        arguments = dict(zip(SIGNATURES[tool], map(self._value, values), strict=False))
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

    def _value(self, value: Any) -> Any:
        if isinstance(value, date):
            return value.isoformat()
        return self.text(value) if isinstance(value, str) else value

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


def load() -> list[tuple[str, Case, int]]:
    """Workflow, case and place of every case."""
    found: list[tuple[str, Case, int]] = []
    order = yaml.safe_load((ROOT / "cases/order.yaml").read_text())
    for number, workflow in enumerate(order):
        path = ROOT / "cases" / f"{workflow}.yaml"
        cases = yaml.safe_load(path.read_text())["cases"] if path.exists() else []
        if len(cases) > MOST_CASES:
            raise ValueError(f"{path}: more than {MOST_CASES} cases")
        for index, case in enumerate(cases):
            place = ((number * MOST_CASES + index) * STEP + START) % PLACES
            found.append((workflow, case, place))
    return found


def stories() -> tuple[world.Company, list[tuple[str, str, Story]]]:
    """The company, and workflow, slug and story of every case."""
    words = yaml.safe_load((ROOT / "words.yaml").read_text())
    cases = load()
    by_place = {place: case["facts"] for _, case, place in cases}
    company = world.found(words, random.Random(SEED))
    ids = {
        # Those of cases first: they need their slots.
        place: world.settle(company, by_place[place], place)
        for place in sorted(by_place)
    }
    told = len(company.rows["invoices"])
    for place in sorted(set(range(PLACES)) - set(by_place)):
        world.settle(company, world.neighbour(words, place), place)
    world.office_history(company, company.rows["invoices"][told:])
    new = {
        "new_job": company.next_id("jobs", "J"),
        "approval": company.next_id("approvals", "A"),
    }
    named: dict[str, dict[str, str]] = {case["slug"]: ids[place] for _, case, place in cases}
    found: list[tuple[str, str, Story]] = []
    for workflow, case, place in cases:
        others = {
            f"other_{name}": value for name, value in named.get(case.get("other", ""), {}).items()
        }
        all_ids = {
            **others,
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
    check: dict[str, Any] = {"name": "final state", "kind": "state"}
    keys = {NEW_ROWS[tool][0]: NEW_ROWS[tool][1] for tool in NEW_ROWS if tool in tools}
    if keys:
        check["keys"] = keys
    if "approvals" in keys and "credits" in keys:
        check["refs"] = {"credits.approval_id": "approvals"}
    texts = [column for tool, column in FREE_TEXT.items() if tool in tools]
    return {**check, "unstable": texts} if texts else check


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
        checks.append(
            {
                "name": "cites its approval",
                "kind": "sql",
                "query": query,
                "expect": True,
            }
        )
    if called.get("set_unit_status", {}).get("status") == "isolated":
        unit = called["set_unit_status"]["unit_id"]
        query = (
            f"SELECT status = 'isolated' AND EXISTS (SELECT FROM journal WHERE reference = unit_id"
            f" AND action = 'safety') FROM units WHERE unit_id = '{unit}'"
        )
        checks.append(
            {
                "name": "shut off, journalled",
                "kind": "sql",
                "query": query,
                "expect": True,
            }
        )
    for name, table in (("job", "jobs"), ("invoice", "invoices"), ("unit", "units")):
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
        tables = ["jobs", "units", "invoices", "credits", "contracts"]
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


def private_part(task_id: str, story: Story) -> dict[str, Any]:
    case = story.case
    writes = story.calls(case.get("writes", []))
    seen = story.calls([["find_contact", "$email"], *story.reads()])
    reply = story.text(case["reply"])
    says: dict[str, Any] = {"name": "names what matters", "kind": "reply"}
    says["contains_all"] = [story.text(str(word)) for word in case["says"]]
    if "never_says" in case:
        says["contains_none"] = [story.text(word) for word in case["never_says"]]
    if "money" in case:
        says["matches"] = money_pattern(case["money"])
    checks = [state_check(writes), *pointed_checks(story, writes), says]
    misses = [
        {"name": f"plays: {name}", "actions": story.calls(calls)}
        for name, calls in case["misses"].items()
    ]
    if not writes:
        misses += idle_misses(story, case["misses"])
    return {
        "task": task_id,
        "golden": {"actions": [*seen, *writes], "reply": reply},
        "checks": checks,
        "extra_write": story.calls([case["extra"]])[0],
        "near_misses": misses,
        "empty": "fails",
    }


def idle_misses(story: Story, misses: dict[str, list[list[Any]]]) -> list[dict[str, Any]]:
    """Where nothing may change: the tempting runs, told openly, and busy work in the side tables."""
    about = story.case["says"][0]
    reply = story.text(f"All done, $person. {about} is taken care of.")
    told = [
        {
            "name": f"plays and tells: {name}",
            "actions": story.calls(calls),
            "reply": reply,
        }
        for name, calls in misses.items()
    ]
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
    return told + [
        {"name": f"plays: {name}", "actions": story.calls(calls)} for name, calls in busy.items()
    ]


def parts_of(workflow: str, slug: str, story: Story) -> dict[str, dict[str, Any]]:
    """The task's three files, by folder."""
    case, task_id = story.case, f"{NAME}/{slug}"
    story.ids.setdefault("person", case["facts"]["person"])
    script = [{"when": when, "say": story.text(say)} for when, say in case.get("script", [])] + [
        {"when": line["when"], "say": story.text(line["say"])} for line in ALWAYS_SAYS
    ]
    tags = {
        "workflow": workflow,
        "failure_mode": case["mode"],
        "split": "train",
    }
    user: dict[str, Any] = {
        "task": task_id,
        "context": story.text(f"You are $person, $email. {case['context']}"),
        "script": script,
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
    for workflow, slug, story in found:
        for folder, content in parts_of(workflow, slug, story).items():
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
    check, wanted = parser.parse_args().check, dict(files())
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
    raise SystemExit(main())
