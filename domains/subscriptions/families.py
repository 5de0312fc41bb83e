"""Write the seed rows and the tasks of the billing desk from its cases.

Each file in cases/ is one workflow: its tasks with the facts of the account, what the member says, what is right, and the
runs that look right. Calls are written as [tool, argument, ...], $names stand for ids of the account, and four words stand
for what the policy always asks for together:

    [traces, ACTION, SUBJECT?]                          log entry and mail, on $sub unless a subject is given
    [charge, KIND, NET, GROSS]                          bill on $sub, and its booking
    [credit, BILL, AMOUNT, REASON, SIGN_OFF?]           credit note, booking and mail
    [repay, PAYMENT, BILL, AMOUNT, REASON, SIGN_OFF?]   payout, booking and mail

`python domains/subscriptions/families.py` writes world/seed.sql, world/tasks, user and private; `--check` fails when what is
committed differs. company.py makes the rows.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import company as world
import yaml

from envfarm_cli.authoring import case_pool
from envfarm_cli.authoring.case_pool import Places

ROOT = Path(__file__).resolve().parent
NAME = "subscriptions"
PLACES = Places(count=128, step=37, start=5, most_cases=5)
"""Accounts; 80 of them for cases, the others are neighbours."""
LIMITS = {
    "max_turns": 14,
    "max_tool_calls": 20,
    "max_turn_tokens": 1024,
    "max_total_tokens": 49152,
    "max_tool_seconds": 20,
}
SIGNATURES = {
    "find_member": ("email",),
    "show_account": ("account_id",),
    "show_subscription": ("subscription_id",),
    "show_bill": ("bill_id",),
    "show_prices": ("currency",),
    "show_voucher": ("code",),
    "change_seats": ("subscription_id", "seats", "effective"),
    "change_plan": ("subscription_id", "plan", "effective"),
    "revoke_licence": ("licence_id",),
    "set_renewal": ("subscription_id", "renews"),
    "end_subscription": ("subscription_id",),
    "pause_subscription": ("subscription_id", "resumes_on"),
    "issue_bill": ("subscription_id", "kind", "net"),
    "ask_sign_off": ("matter", "subject", "amount"),
    "issue_credit_note": ("bill_id", "amount", "reason", "sign_off_id"),
    "pay_out": ("payment_id", "amount", "reason", "sign_off_id"),
    "apply_voucher": ("subscription_id", "code", "sign_off_id"),
    "hold_dunning": ("bill_id", "until"),
    "set_billing_detail": ("account_id", "detail", "value"),
    "set_member_role": ("member_id", "role"),
    "book_ledger": ("kind", "bill_id", "amount"),
    "log_change": ("subject", "action", "detail"),
    "send_mail": ("member_id", "template", "subject"),
    "refer_for_review": ("member_id", "team", "subject", "note"),
}
NEW_ROWS = {
    "log_change": ("change_log", ["subject", "action"]),
    "send_mail": ("outbox", ["member_id", "template", "subject"]),
    "refer_for_review": ("referrals", ["member_id", "team", "subject"]),
    "ask_sign_off": ("sign_offs", ["matter", "subject", "amount"]),
    "issue_credit_note": ("credit_notes", ["bill_id", "reason"]),
    "pay_out": ("payouts", ["payment_id", "reason"]),
    "book_ledger": ("ledger_entries", ["kind", "bill_id"]),
    "issue_bill": ("bills", ["subscription_id", "kind", "issued_on"]),
}
"""Tables with generated ids, and the natural keys of their rows, by the tool that writes them."""
WRITES = NEW_ROWS | {"apply_voucher": ("redemptions", ["subscription_id"])}
"""Also tools that write elsewhere than their arguments suggest: where, and under which of them."""
FREE_TEXT = {"log_change": "change_log.detail", "refer_for_review": "referrals.note"}
CITES = {
    "issue_credit_note": "credit_notes",
    "pay_out": "payouts",
    "apply_voucher": "redemptions",
}
Calls = list[list[Any]]
ALWAYS_SAYS = [
    {"when": r"(?i)e-?mail", "say": "It's $email."},
    {"when": r"(?i)\b(sure|confirm|shall I|should I|would you like|agree|okay to|go ahead)\b",
     "say": "Yes, go ahead."},
]  # fmt: skip


def spelled_out(calls: Calls) -> Calls:
    """With the four short words replaced by the calls that they stand for."""
    found: Calls = []
    for tool, *values in calls:
        match tool, values:
            case "traces", [action, *subject]:
                about = subject[0] if subject else "$sub"
                found += [["log_change", about, action, "Asked for by $person."]]
                found += [["send_mail", "$member", action, about]]
            case "charge", [kind, net, gross]:
                found += [["issue_bill", "$sub", kind, net]]
                found += [["book_ledger", "charge", "$new_bill", gross]]
            case "credit", [bill, amount, *rest]:
                found += [["issue_credit_note", bill, amount, *rest]]
                found += [["book_ledger", "credit", bill, amount]]
                found += [["send_mail", "$member", "credit_note", bill]]
            case "repay", [payment, bill, amount, *rest]:
                found += [["pay_out", payment, amount, *rest]]
                found += [["book_ledger", "payout", bill, amount]]
                found += [["send_mail", "$member", "payout", bill]]
            case _:
                found.append([tool, *values])
    return found


class Story(case_pool.Story):
    """A case of the billing desk."""

    def calls(self, written: Calls) -> list[dict[str, Any]]:
        return [
            {
                "tool": tool,
                "arguments": dict(zip(SIGNATURES[tool], map(self.value, values), strict=False)),
            }
            for tool, *values in spelled_out(written)
        ]

    def reads(self) -> Calls:
        """Calls for what the case looks at: names of ids, `prices`, or `voucher CODE`."""
        found: Calls = []
        kinds = {"sub": "subscription"}
        for name in self.case.get("reads", []):
            if name == "prices":
                found.append(["show_prices", "$currency"])
            elif name.startswith("voucher "):
                found.append(["show_voucher", name.removeprefix("voucher ")])
            else:
                kind = name.removeprefix("other_").rstrip("234")
                found.append([f"show_{kinds.get(kind, kind)}", f"${name}"])
        return found


def stories() -> tuple[world.Company, list[tuple[str, Story]]]:
    """The company, and workflow and story of every case."""
    words = yaml.safe_load((ROOT / "words.yaml").read_text())
    cases = case_pool.load_cases(ROOT, PLACES)
    by_place = {place: case["facts"] for _, case, place in cases}
    company = world.found(words)
    ids = {place: world.settle(company, by_place[place], place) for place in sorted(by_place)}
    told = len(company.rows["bills"])
    for place in sorted(set(range(PLACES.count)) - set(by_place)):
        world.settle(company, world.neighbour(words, place), place)
    world.desk_history(company, company.rows["bills"][told:])
    new = {
        "new_bill": company.next_id("bills", "BI"),
        "new_bill2": company.next_id("bills", "BI", 2),
        "sign_off": company.next_id("sign_offs", "SO"),
    }
    named = {case["slug"]: ids[place] for _, case, place in cases}
    return company, [
        (workflow, Story(case, {**case_pool.others(named, case), **ids[place], **new}))
        for workflow, case, place in cases
    ]


def state_check(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The final state, but for generated ids and free text of the rows that the calls write."""
    tools = {call["tool"] for call in calls}
    refs: dict[str, str] = {}
    if "ask_sign_off" in tools:
        refs = {f"{CITES[tool]}.sign_off_id": "sign_offs" for tool in CITES if tool in tools}
    if "issue_bill" in tools:
        refs |= {"bill_lines.bill_id": "bills", "ledger_entries.bill_id": "bills"}
    return case_pool.state_check(tools, NEW_ROWS, refs, FREE_TEXT)


def pointed_checks(story: Story, writes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the state check implies and a person wants to read in a verdict by its own name."""
    checks: list[dict[str, Any]] = []
    for call in writes:
        table = CITES.get(call["tool"])
        if table and "sign_off_id" in call["arguments"]:
            query = (
                f"SELECT count(*) = 1 FROM {table} JOIN sign_offs USING (sign_off_id)"
                f" WHERE answer = 'approved' AND asked_at >= '2026-06-17'"
            )
            checks.append(case_pool.sql_check("cites its sign-off", query))
    booked = [call["arguments"] for call in writes if call["tool"] == "book_ledger"]
    if booked:
        query = (
            "SELECT bill_id, sum(amount) AS booked FROM ledger_entries"
            " WHERE booked_at >= '2026-06-17' GROUP BY bill_id"
        )
        rows = [{"bill_id": entry["bill_id"], "booked": entry["amount"]} for entry in booked]
        checks.append(
            {
                "name": "in the ledger",
                "kind": "sql",
                "query": query,
                "expect": rows,
                "any_order": True,
            }
        )
    records = (
        ("subscription", "other_sub", "subscriptions", "subscription_id"),
        ("bill", "other_bill", "bills", "bill_id"),
        ("account", "other_account", "accounts", "account_id"),
    )
    wrong = case_pool.wrong_calls(story.case, story.calls)
    checks += case_pool.others_untouched(story.ids, records, WRITES, writes, wrong)
    if not writes:
        tables = [
            "subscriptions",
            "licences",
            "bills",
            "credit_notes",
            "payouts",
            "accounts",
            "members",
            "redemptions",
        ]
        checks.append(case_pool.nothing_happened(tables))
    return checks


def private_part(task_id: str, story: Story) -> dict[str, Any]:
    case = story.case
    writes = story.calls(case.get("writes", []))
    seen = story.calls([["find_member", "$email"], *story.reads()])
    checks = [state_check(writes), *pointed_checks(story, writes)]
    checks += case_pool.reply_checks(case, story.text)
    if "rubric" in case:
        question, expect = case["rubric"]
        checks.append({"name": "asked", "kind": "rubric", "question": question, "expect": expect})
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


def idle_misses(story: Story, misses: dict[str, Calls]) -> list[dict[str, Any]]:
    """Where nothing may change: the tempting runs, told openly, and busy work in the side tables."""
    about = story.case["says"][0]
    reply = story.text(f"Done, $person. I have settled {about} as you wished.")
    told = case_pool.played(misses, story.calls, reply)
    busy = {
        "hands it to anybody": [
            ["refer_for_review", "$member", "other", about, "The member insists."]
        ],
        "hands it to retention": [
            ["refer_for_review", "$member", "retention", about, "May leave us."]
        ],
        "hands it to sales": [["refer_for_review", "$member", "sales", about, "Wants more."]],
        "logs the talk": [["log_change", about, "details_changed", "The member called."]],
        "mails all the same": [["send_mail", "$member", "details_changed", about]],
        "asks the head of billing": [["ask_sign_off", "correction", about, 50.0]],
    }
    return told + case_pool.played(busy, story.calls)


def parts_of(workflow: str, story: Story) -> case_pool.Parts:
    """The task's three files, by folder."""
    case, task_id = story.case, f"{NAME}/{story.case['slug']}"
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
            "context": story.text(f"You are $person of $firm, $email. {case['context']}"),
            "script": story.lines(ALWAYS_SAYS),
        },
        "private": private_part(task_id, story),
    }


def files() -> Iterator[tuple[Path, str]]:
    """Every file that is written, with its text."""
    company, found = stories()
    yield ROOT / "world/seed.sql", world.seed_sql(company)
    parts = ((story.case, parts_of(workflow, story)) for workflow, story in found)
    yield from case_pool.texts_of(ROOT, parts)


if __name__ == "__main__":
    sys.exit(case_pool.main(ROOT, __doc__, files))
