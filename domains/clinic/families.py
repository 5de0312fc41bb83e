"""Write the seed rows and the tasks of the appointments desk from its cases.

Each file in cases/ is one workflow: its tasks with the facts of the patient, what the person says, what is right, and the
runs that look right. Calls are written as [tool, argument, ...], $names stand for ids of the patient, and short words stand
for what the policy always asks for together:

    [traces, ACTION, SUBJECT, PATIENT?]             audit entry and message
    [visit, TYPE, SLOT, PAYER, LETTER?, AUTH?]      booking, its reminder and its audit entry
    [moves, VISIT, SLOT, DECISION?]                 move, new reminder and traces
    [cancels, VISIT, HOW?]                          cancellation and traces
    [fines, VISIT, AMOUNT]                          fee for a late cancellation, and its traces
    [waives, FEE, AMOUNT, REASON, DECISION?]        waiver and its traces

`python domains/clinic/families.py` writes world/seed.sql, world/tasks, user and private; `--check` fails when what is
committed differs. company.py makes the rows.
"""

import argparse
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from string import Template
from typing import Any

import company as world
import yaml

from envfarm_cli.authoring import case_pool

ROOT = Path(__file__).resolve().parent
NAME = "clinic"
PLACES = 128
"""Patients; 80 of them for cases, the others are neighbours."""
STEP, START = 37, 9
"""Cases are spread over the places by a step without common divisor."""
MOST_CASES = 5
"""Of one workflow."""
LIMITS = {
    "max_turns": 16,
    "max_tool_calls": 26,
    "max_turn_tokens": 1024,
    "max_total_tokens": 49152,
    "max_tool_seconds": 20,
}
SIGNATURES = {
    "find_patient": ("email",),
    "show_patient": ("patient_id",),
    "show_appointment": ("appointment_id",),
    "show_fee": ("fee_id",),
    "list_visit_types": ("specialty",),
    "list_free_slots": ("visit_type", "site", "first_day", "last_day"),
    "show_waiting_list": ("visit_type", "site"),
    "book_appointment": (
        "patient_id",
        "visit_type",
        "slot_id",
        "payer",
        "referral_id",
        "authorisation_id",
    ),
    "move_appointment": ("appointment_id", "slot_id", "decision_id"),
    "cancel_appointment": ("appointment_id", "how"),
    "set_reminder": ("appointment_id", "day", "channel"),
    "set_interpreter": ("appointment_id", "language"),
    "set_payer": ("appointment_id", "payer", "authorisation_id"),
    "request_authorisation": ("patient_id", "visit_type"),
    "raise_visit_fee": ("appointment_id", "kind", "amount"),
    "waive_visit_fee": ("fee_id", "amount", "reason", "decision_id"),
    "request_lead_approval": ("matter", "subject", "amount"),
    "join_waiting_list": ("patient_id", "visit_type", "site", "priority", "referral_id"),
    "close_waiting_entry": ("waiting_id", "outcome"),
    "set_contact": ("patient_id", "detail", "value"),
    "grant_proxy": ("patient_id", "name", "email", "relation", "scope", "until"),
    "end_proxy": ("proxy_id",),
    "message_patient": ("patient_id", "template", "subject"),
    "write_audit": ("subject", "action", "detail"),
    "escalate_case": ("patient_id", "desk", "subject", "note"),
}
NEW_ROWS = {
    "book_appointment": ("appointments", ["patient_id", "slot_id"]),
    "raise_visit_fee": ("visit_fees", ["appointment_id", "kind"]),
    "waive_visit_fee": ("fee_waivers", ["fee_id", "reason"]),
    "request_lead_approval": ("lead_decisions", ["matter", "subject", "amount"]),
    "request_authorisation": ("cover_authorisations", ["patient_id", "visit_type", "status"]),
    "join_waiting_list": ("waiting_entries", ["patient_id", "visit_type"]),
    "grant_proxy": ("patient_proxies", ["patient_id", "email"]),
    "message_patient": ("patient_messages", ["patient_id", "template", "subject"]),
    "write_audit": ("audit_entries", ["subject", "action"]),
    "escalate_case": ("escalated_cases", ["patient_id", "desk", "subject"]),
}
"""Tables with generated ids, and the natural keys of their rows, by the tool that writes them."""
FREE_TEXT = {"write_audit": "audit_entries.detail", "escalate_case": "escalated_cases.note"}
SUBJECTS = ("appointments", "visit_fees", "waiting_entries")
"""New rows of one of these are what audit entries and messages are about."""
PARTS = ("world/tasks", "user", "private")
Case = dict[str, Any]
Calls = list[list[Any]]
ALWAYS_SAYS = [
    ["(?i)e-?mail", "It's $email."],
    [r"(?i)\b(sure|confirm|shall I|should I|would you like|agree|okay with|go ahead)\b", "Yes, please do."],
]  # fmt: skip


class Story:
    """One case with its patient: the names of its texts and calls stand for ids."""

    def __init__(self, case: Case, ids: dict[str, str], company: world.Company):
        self.case, self.ids, self.company = case, ids, company

    def text(self, value: str) -> str:
        """With ids in place of names; KeyError for an unknown name."""
        return Template(value).substitute(self.ids).strip()

    def calls(self, written: Calls) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for tool, *values in self._spelled_out(written):
            pairs = zip(SIGNATURES[tool], map(self._value, values), strict=False)
            arguments = {name: value for name, value in pairs if value is not None}
            found.append({"tool": tool, "arguments": arguments})
        return found

    def _value(self, value: Any) -> Any:
        if isinstance(value, date):
            return value.isoformat()
        return self.text(value) if isinstance(value, str) else value

    def _spelled_out(self, calls: Calls) -> Calls:
        """With the short words replaced by the calls that they stand for."""
        found: Calls = []
        booked = 0
        for tool, *values in calls:
            match tool, values:
                case "traces", [action, subject, *patient]:
                    found.append(["write_audit", subject, action, "Asked for by $person."])
                    found.append(["message_patient", *(patient or ["$patient"]), action, subject])
                case "visit", [kind, slot, *rest]:
                    new = f"${world.named('new_visit', booked)}"
                    booked += 1
                    found.append(["book_appointment", "$patient", kind, slot, *rest])
                    found += self._reminder(new, slot)
                    found.append(["write_audit", new, "booked", "Asked for by $person."])
                case "moves", [visit, slot, *decision]:
                    found.append(["move_appointment", visit, slot, *decision])
                    found += self._reminder(visit, slot)
                    found += self._spelled_out([["traces", "moved", visit]])
                case "cancels", [visit, *how]:
                    found.append(["cancel_appointment", visit, *(how or ["cancelled"])])
                    found += self._spelled_out([["traces", "cancelled", visit]])
                case "fines", [visit, amount]:
                    found.append(["raise_visit_fee", visit, "late_cancel", amount])
                    found += self._spelled_out([["traces", "fee_raised", "$new_fee"]])
                case "waives", [fee, *rest]:
                    found.append(["waive_visit_fee", fee, *rest])
                    found += self._spelled_out([["traces", "fee_waived", fee]])
                case _:
                    found.append([tool, *values])
        return found

    def _reminder(self, visit: str, slot: str) -> Calls:
        day = world.reminder_day(self.company.slots[self.text(slot)])
        return [["set_reminder", visit, day, "$channel"]] if day else []

    def reads(self) -> Calls:
        """Calls for what the case looks at: names of ids, or `slots`, `queue` or `types` and what they need."""
        found: Calls = []
        tools = {
            "slots": "list_free_slots",
            "queue": "show_waiting_list",
            "types": "list_visit_types",
        }
        kinds = {"visit": "appointment"}
        for name in self.case.get("reads", []):
            word, *rest = name.split()
            if word in tools:
                found.append([tools[word], *rest])
            else:
                kind = name.removeprefix("other_").removeprefix("b_").rstrip("2345")
                found.append([f"show_{kinds.get(kind, kind)}", f"${name}"])
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


def stories() -> tuple[world.Company, list[tuple[str, Story]]]:
    """The company, and workflow and story of every case."""
    words = yaml.safe_load((ROOT / "words.yaml").read_text())
    cases = load()
    by_place = {place: case["facts"] for _, case, place in cases}
    company = world.found(words)
    ids = {place: world.settle(company, by_place[place], place) for place in sorted(by_place)}
    for place in sorted(set(range(PLACES)) - set(by_place)):
        world.settle(company, world.neighbour(company, place), place)
    world.desk_history(company)
    world.calendar(company)
    new = {
        "new_visit": company.next_id("appointments"),
        **{f"new_visit{n}": company.next_id("appointments", n) for n in range(2, 7)},
        "new_fee": company.next_id("visit_fees"),
        "new_wait": company.next_id("waiting_entries"),
        "new_wait2": company.next_id("waiting_entries", 2),
        "decision": company.next_id("lead_decisions"),
    }
    named = {case["slug"]: ids[place] for _, case, place in cases}
    found: list[tuple[str, Story]] = []
    for workflow, case, place in cases:
        others = {
            f"other_{key}": value for key, value in named.get(case.get("other", ""), {}).items()
        }
        found.append((workflow, Story(case, {**others, **ids[place], **new}, company)))
    return company, found


def state_check(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The final state, but for generated ids and free text of the rows that the calls write."""
    tools = {call["tool"] for call in calls}
    check: dict[str, Any] = {"name": "final state", "kind": "state"}
    keys = {NEW_ROWS[tool][0]: NEW_ROWS[tool][1] for tool in NEW_ROWS if tool in tools}
    if keys:
        check["keys"] = keys
    refs: dict[str, str] = {}
    if "fee_waivers" in keys and "lead_decisions" in keys:
        refs["fee_waivers.decision_id"] = "lead_decisions"
    if about := next((table for table in SUBJECTS if table in keys), None):
        refs |= {f"{table}.subject": about for table in ("audit_entries", "patient_messages") if table in keys}  # fmt: skip
        if about == "appointments" and "set_reminder" in tools:
            refs["visit_reminders.appointment_id"] = about
    if refs:
        check["refs"] = refs
    texts = [column for tool, column in FREE_TEXT.items() if tool in tools]
    return {**check, "unstable": texts} if texts else check


def pointed_checks(story: Story, writes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the state check implies and a person wants to read in a verdict by its own name."""
    checks: list[dict[str, Any]] = []
    for call in writes:
        if call["tool"] == "waive_visit_fee" and "decision_id" in call["arguments"]:
            query = (
                "SELECT count(*) = 1 FROM fee_waivers JOIN lead_decisions USING (decision_id, amount)"
                f" WHERE fee_id = '{call['arguments']['fee_id']}' AND subject = fee_id AND answer = 'approved'"
            )
            checks.append(
                {"name": "cites its decision", "kind": "sql", "query": query, "expect": True}
            )
    records = (
        ("visit", "other_visit", "appointments", "appointment_id"),
        ("fee", "other_fee", "visit_fees", "fee_id"),
        ("patient", "other_patient", "patients", "patient_id"),
    )
    wrong = case_pool.wrong_calls(story.case, story.calls)
    checks += case_pool.others_untouched(story.ids, records, NEW_ROWS, writes, wrong)
    if not writes:
        tables = ["appointments", "visit_fees", "fee_waivers", "waiting_entries", "patients", "patient_proxies"]  # fmt: skip
        checks.append({"name": "nothing happened", "kind": "untouched", "tables": tables})
    return checks


def private_part(task_id: str, story: Story) -> dict[str, Any]:
    case = story.case
    writes = story.calls(case.get("writes", []))
    seen = story.calls([["find_patient", "$email"], *story.reads()])
    checks = [state_check(writes), *pointed_checks(story, writes)]
    checks += case_pool.reply_checks(case, story.text)
    if "rubric" in case:
        question, expect = case["rubric"]
        checks.append({"name": "asked", "kind": "rubric", "question": question, "expect": expect})
    misses = [
        {"name": f"plays: {name}", "actions": story.calls(calls)}
        for name, calls in case["misses"].items()
    ]
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


def idle_misses(story: Story, misses: dict[str, Calls]) -> list[dict[str, Any]]:
    """Where nothing may change: the tempting runs, told openly, and busy work in the side tables."""
    about = story.case["says"][0]
    reply = story.text(f"That is settled, $person. {about} is as you wanted it.")
    told = [
        {"name": f"plays and tells: {name}", "actions": story.calls(calls), "reply": reply}
        for name, calls in misses.items()
    ]
    note = "The person insists."
    busy = {
        "hands it to anybody": [["escalate_case", "$patient", "other", about, note]],
        "hands it to triage": [["escalate_case", "$patient", "triage", about, note]],
        "hands it to the bookkeepers": [["escalate_case", "$patient", "billing", about, note]],
        "writes the talk down": [["write_audit", about, "contact_changed", "There was a talk."]],
        "sends a message all the same": [["message_patient", "$patient", "moved", about]],
        "asks the lead": [["request_lead_approval", "waiver", about, 20.0]],
    }
    return told + [
        {"name": f"plays: {name}", "actions": story.calls(calls)} for name, calls in busy.items()
    ]


def parts_of(workflow: str, story: Story) -> dict[str, dict[str, Any]]:
    """The task's three files, by folder."""
    case, task_id = story.case, f"{NAME}/{story.case['slug']}"
    lines = [*case.get("script", []), *ALWAYS_SAYS]
    tags = {"workflow": workflow, "failure_mode": case["mode"], "split": "train"}
    return {
        "world/tasks": {
            "id": task_id,
            "opening": story.text(case["opening"]),
            "limits": LIMITS,
            "tags": tags,
        },
        "user": {
            "task": task_id,
            "context": story.text(f"You are $person, $email. {case['context']}"),
            "script": [{"when": when, "say": story.text(say)} for when, say in lines],
        },
        "private": private_part(task_id, story),
    }


def files() -> Iterator[tuple[Path, str]]:
    """Every file that is written, with its text."""
    company, found = stories()
    yield ROOT / "world/seed.sql", world.seed_sql(company)
    for workflow, story in found:
        for folder, content in parts_of(workflow, story).items():
            text = yaml.dump(content, Dumper=Plain, sort_keys=False, allow_unicode=True, width=100)
            if folder == "private":
                text = f"# Turns on: {story.case['point']}\n{text}"
            yield ROOT / folder / f"{story.case['slug']}.yaml", text


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
