"""The rows of Kranich: accounts with members, subscriptions, licences, usage, bills, payments and the desk's side tables.

An account is made from facts: those of a task's case, or drawn ones for firms that no task is about. Ids follow from the
account's place, so that new cases move no others.
"""

import random
import re
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

Facts = dict[str, Any]
TABLES = (
    "accounts", "members", "plans", "plan_prices", "subscriptions", "licences", "usage_months", "bills", "bill_lines",
    "incoming_payments", "sign_offs", "credit_notes", "payouts", "ledger_entries", "dunning_cases", "vouchers", "redemptions",
    "outbox", "change_log", "referrals",
)  # fmt: skip
"""In the order in which foreign keys need them."""
CURRENCY = {"GB": "GBP", "US": "USD"}
"""EUR elsewhere."""
TAX = {"DE": 19, "AT": 20, "FR": 20, "NL": 21, "GB": 0, "US": 0}
"""Percent; firms in AT, FR and NL with a tax id pay none."""
RUNS_OF_A_SEAT = 500
"""Included in a month."""
PERIODS = [("2026-04-01", "2026-04-30"), ("2026-05-01", "2026-05-31"), ("2026-06-01", "2026-06-30")]
CENT = Decimal("0.01")


@dataclass
class Company:
    """Rows by table."""

    words: dict[str, Any]
    rows: dict[str, list[tuple[Any, ...]]] = field(
        default_factory=lambda: {table: [] for table in TABLES}
    )

    def add(self, table: str, *row: Any) -> None:
        self.rows[table].append(row)

    def numbered(self, table: str, letters: str, first: int, *row: Any) -> str:
        """Add a row of a side table under the next number, counted from `first`."""
        new = f"{letters}-{first + len(self.rows[table])}"
        self.add(table, new, *row)
        return new

    def next_id(self, table: str, letters: str, after: int = 1) -> str:
        return f"{letters}-{max(int(row[0][3:]) for row in self.rows[table]) + after}"

    def price(self, plan: str, currency: str, cycle: str) -> int:
        """List price of a seat."""
        monthly = self.words["plans"][plan][2 + ("EUR", "GBP", "USD").index(currency)]
        return monthly * (10 if cycle == "yearly" else 1)


def found(words: dict[str, Any]) -> Company:
    """Plans with their prices, and vouchers."""
    company = Company(words)
    for rank, (plan, (fewest, most, *_)) in enumerate(words["plans"].items(), 1):
        company.add("plans", plan, rank, fewest, most)
        for currency in ("EUR", "GBP", "USD"):
            for cycle in ("monthly", "yearly"):
                price = company.price(plan, currency, cycle)
                company.add("plan_prices", plan, currency, cycle, price)
    for code, (percent, plan, first, last, starting, most) in words["vouchers"].items():
        company.add("vouchers", code, percent, plan, first, last, starting, most)
    return company


def settle(company: Company, facts: Facts, place: int) -> dict[str, str]:
    """Add an account; its ids by the names that cases use for them."""
    rng = random.Random(f"account {place}")
    country = facts.get("country", "DE")
    taxed = facts.get("taxed", country == "DE" or "tax_id" not in facts)
    ids = {"account": f"AC-{100 + place}", "currency": CURRENCY.get(country, "EUR")}
    ids |= {"firm": facts["firm"], "site": f"{_plain(facts['firm']).replace('.', '')}.example"}
    company.add(
        "accounts", ids["account"], facts["firm"], country, ids["currency"], facts.get("tier", "standard"),
        facts.get("status", "active"), facts.get("tax_id", "DE" + str(811000000 + place * 7919) if country == "DE" else None),
        TAX[country] if taxed else 0, facts.get("terms", 14),
        facts.get("billing_email", f"invoices@{ids['site']}"), facts.get("po"), facts.get("note", ""),
        _day(facts.get("signed", f"202{rng.randint(1, 5)}-0{rng.randint(1, 9)}-{rng.randint(10, 28)}")),
    )  # fmt: skip
    _log(company, ids["account"], facts.get("log", []))
    _members(company, ids, facts, place, rng)
    for index, sub in enumerate(facts.get("subs", [{}])):
        _subscription(company, ids, sub, place, index, rng)
    for index, bill in enumerate(facts.get("bills", [])):
        number = f"BI-{5000 + 12 * place + 7 + index}"
        ids[_named("bill", index)] = number
        _bill(company, ids, {"rate": TAX[country] if taxed else 0, **bill}, number)
    _running_bills(company, ids, facts, place, TAX[country] if taxed else 0)
    return ids


def _named(name: str, index: int) -> str:
    return name if index == 0 else f"{name}{index + 1}"


def _plain(name: str) -> str:
    letters = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "é": "e", "ø": "o", "á": "a", "ç": "c"}
    return re.sub(r"[^a-z0-9]+", ".", name.lower().translate(str.maketrans(letters))).strip(".")


def _members(
    company: Company, ids: dict[str, str], facts: Facts, place: int, rng: random.Random
) -> None:
    """The person of the case, the owner if that is somebody else, and colleagues."""
    words = company.words
    people = [("member", facts["person"], facts.get("role", "owner"), facts.get("active", True))]
    if people[0][2] != "owner":
        drawn = f"{rng.choice(words['first'])} {rng.choice(words['last'])}"
        people.append(("owner", facts.get("owner", drawn), "owner", True))
    for index, (name, role, *rest) in enumerate(facts.get("colleagues", [])):
        people.append((_named("colleague", index), name, role, not rest))
    if "colleagues" not in facts:
        name = f"{words['first'][place % 26]} {words['last'][place * 3 % 25]}"
        people.append(("clerk", name, "billing", True))
    for index, (key, name, role, active) in enumerate(people):
        email = f"{_plain(name)}@{ids['site']}"
        ids[key], ids[f"{key}_email"] = f"ME-{1000 + 6 * place + index}", email
        company.add("members", ids[key], ids["account"], name, email, role, active)
    ids["email"], ids["person"] = ids["member_email"], facts["person"]


def _subscription(
    company: Company, ids: dict[str, str], facts: Facts, place: int, index: int, rng: random.Random
) -> None:
    sub = ids[_named("sub", index)] = f"SU-{3000 + 3 * place + index}"
    plan, cycle, seats = (
        facts.get("plan", "team"),
        facts.get("cycle", "monthly"),
        facts.get("seats", 8),
    )
    start, end = facts.get("start", "2026-06-01"), facts.get("end", "2026-06-30")
    status, ended = facts.get("status", "active"), _day(facts.get("ended"))
    ids[_named("price", index)] = str(
        facts.get("price", company.price(plan, ids["currency"], cycle))
    )
    company.add(
        "subscriptions", sub, ids["account"], plan, cycle, seats, Decimal(ids[_named("price", index)]),
        _day(facts.get("started", f"2024-0{rng.randint(1, 9)}-01")), _day(start), _day(end), status,
        facts.get("renews", status != "ended"), facts.get("next_plan"), facts.get("next_seats"),
        _day(facts.get("resumes")), ended,
    )  # fmt: skip
    used = [] if ended else facts.get("used", min(seats, 4 + place % 4))
    names = used if isinstance(used, list) else _staff(company, place, index, used)
    for number, name in enumerate(names):
        licence = f"LI-{20000 + 60 * place + 20 * index + number}"
        if index == 0:
            ids[_named("lic", number)] = licence
        seen = date(2026, 6, 16) - timedelta(days=rng.choice((0, 0, 1, 1, 2, 5, 12, 47)))
        company.add("licences", licence, sub, f"{_plain(name)}@{ids['site']}", seen)
    usage = {date(2026, month, 1): None for month in (4, 5)} | facts.get("usage", {})
    for month, counted in sorted(usage.items()):
        included = seats * RUNS_OF_A_SEAT
        runs, free = counted or (int(included * rng.uniform(0.2, 0.9)), included)
        if month >= _day(facts.get("started", "2024-01-01")).replace(day=1):
            company.add("usage_months", sub, month, runs, free)
    _log(company, sub, facts.get("log", []))
    if "voucher" in facts:
        company.add("redemptions", sub, facts["voucher"], None, f"{start}T09:00:00Z")


def _staff(company: Company, place: int, index: int, count: int) -> list[str]:
    first, last = company.words["first"], company.words["last"]
    steps = [place * 5 + index * 9 + number for number in range(count)]
    return [f"{first[step * 3 % 26]} {last[step * 7 % 25]}" for step in steps]


def _bill(company: Company, ids: dict[str, str], facts: Facts, bill: str) -> None:
    sub = ids[_named("sub", facts.get("sub", 0))]
    row = next(row for row in company.rows["subscriptions"] if row[0] == sub)
    lines = facts.get("lines") or [[f"{row[2].capitalize()}, seats", row[4], row[5]]]
    lines = [[item, quantity, Decimal(str(price))] for item, quantity, price in lines]
    net = sum((quantity * price for _, quantity, price in lines), Decimal(0))
    tax = (net * facts["rate"] / 100).quantize(CENT, ROUND_HALF_UP)
    first, last = facts.get("covers", (row[7], row[8]))
    issued = _day(facts.get("issued", first))
    status = facts.get("status", "paid")
    company.add(
        "bills", bill, ids["account"], sub, facts.get("kind", "period"), _day(first), _day(last), ids["currency"],
        net, facts["rate"], tax, net + tax, issued, _day(facts.get("due", issued + timedelta(days=14))), status,
    )  # fmt: skip
    for number, (item, quantity, price) in enumerate(lines, 1):
        company.add("bill_lines", bill, number, item, quantity, price)
    paid = (
        [[None, "direct_debit", "settled", issued + timedelta(days=2)]] if status == "paid" else []
    )
    for number, (amount, method, state, day) in enumerate(facts.get("payments", paid)):
        payment = f"PY-{int(bill[3:]) * 3 + number}"
        known = [name for name in ids if re.fullmatch(r"pay\d*", name)]
        ids[_named("pay", len(known))] = payment
        amount = net + tax if amount is None else Decimal(str(amount))
        company.add("incoming_payments", payment, bill, amount, method, state, _day(day))
    for amount, reason, day in facts.get("credits", []):
        at = f"{day}T10:30:00Z"
        company.numbered("credit_notes", "CN", 401, bill, amount, reason, None, at)
        company.numbered("ledger_entries", "LE", 801, ids["account"], "credit", bill, amount, at)
        company.numbered("outbox", "MA", 2001, ids["member"], "credit_note", bill, at)
    if "dunning" in facts:
        level, step, held = facts["dunning"]
        company.add("dunning_cases", bill, level, _day(step), _day(held))
    _log(company, bill, facts.get("log", []))


def _running_bills(
    company: Company, ids: dict[str, str], facts: Facts, place: int, rate: int
) -> None:
    """Paid bills of the periods up to now that the facts do not tell of."""
    told = {
        (bill.get("sub", 0), str(bill.get("covers", ("now",))[0]))
        for bill in facts.get("bills", [])
        if bill.get("kind", "period") == "period"
    }
    number = 0
    for index, sub in enumerate(facts.get("subs", [{}])):
        if sub.get("status") in ("trial", "ended"):
            continue
        start = str(sub.get("start", "2026-06-01"))
        periods = [(start, str(sub.get("end", "2026-06-30")))]
        if start == "2026-06-01" and sub.get("cycle", "monthly") == "monthly":
            periods = PERIODS if sub.get("history", True) else PERIODS[2:]
        for first, last in periods:
            early = first < str(sub.get("started", "2024-01-01"))
            now = first == start and (index, "now") in told
            if early or now or (index, first) in told:
                continue
            bill = {"sub": index, "covers": (first, last), "rate": rate}
            _bill(company, {**ids, "pay": "", "pay2": ""}, bill, f"BI-{5000 + 12 * place + number}")
            number += 1


def _log(company: Company, subject: str, entries: list[list[Any]]) -> None:
    for action, detail, at in entries:
        company.numbered("change_log", "CL", 6001, subject, action, detail, f"{at}T09:15:00Z")


def _day(value: Any) -> Any:
    return date.fromisoformat(value) if isinstance(value, str) else value


def neighbour(words: dict[str, Any], place: int) -> Facts:
    """Facts of an account that no task is about."""
    rng = random.Random(f"neighbour {place}")
    person = f"{words['first'][place * 5 % 26]} {words['last'][place * 7 % 25]}"
    plan = rng.choice(("starter", "team", "team", "business", "business"))
    fewest, most = words["plans"][plan][:2]
    seats = rng.randint(fewest, min(most, fewest + 18))
    facts: Facts = {
        "person": person,
        "firm": f"{words['last'][place * 11 % 25]} {words['trades'][place % 12]}",
        "country": rng.choice(("DE", "DE", "DE", "AT", "FR", "NL", "GB", "US")),
        "role": rng.choice(("owner", "owner", "billing", "admin")),
        "tier": "nonprofit" if rng.random() < 0.08 else "standard",
        "subs": [{"plan": plan, "seats": seats}],
        "bills": [],
    }
    if place % 3 == 0:
        text = f"{seats} seats instead of {seats + 2}."
        facts["subs"][0]["log"] = [["seats_changed", text, "2025-11-18"]]
    if place % 4 == 0:
        facts["subs"][0]["voucher"] = rng.choice(("SPRING10", "LOYAL30", "EARLYBIRD"))
    if place % 5 == 0:
        step = f"2026-06-{rng.randint(18, 29)}"
        facts["bills"].append({"status": "open", "due": "2026-06-09", "dunning": [1, step, None]})
    if place % 7 == 0:
        facts["subs"].append({"plan": "starter", "seats": 3, "status": "trial", "start": "2026-06-08", "end": "2026-06-21", "started": "2026-06-08"})  # fmt: skip
    return facts


def desk_history(company: Company, bills: list[tuple[Any, ...]]) -> None:
    """Earlier sign-offs with their corrections, and referrals, of these bills."""
    members = {row[1]: row[0] for row in reversed(company.rows["members"])}
    payments = {row[1]: row for row in company.rows["incoming_payments"]}
    for index, row in enumerate(bills[::3]):
        bill, account, gross, at = row[0], row[1], row[10], f"{row[11]}T14:20:00Z"
        if index % 3 == 0 or bill not in payments:
            team = ("sales", "retention", "other")[index % 3]
            note = "Please call back about the terms."
            company.numbered("referrals", "RF", 301, members[account], team, row[2], note, at)
            continue
        part = (gross / 10).quantize(CENT, ROUND_HALF_UP)
        amount, signed = (gross, True) if gross > 200 else (part, False)
        sign_off = None
        if signed:
            sign_off = company.numbered("sign_offs", "SO", 61, "correction", bill, amount, "approved", at)  # fmt: skip
        reason = "double_charge" if signed else "outage"
        payment = payments[bill][0]
        company.numbered("payouts", "PO", 501, payment, amount, reason, sign_off, at)
        company.numbered("ledger_entries", "LE", 801, account, "payout", bill, amount, at)
        company.numbered("outbox", "MA", 2001, members[account], "payout", bill, at)


def seed_sql(company: Company) -> str:
    """Text of world/seed.sql."""
    statements = []
    for table in TABLES:
        rows = company.rows[table]
        if re.match(r"[A-Z]{2}-\d", str(rows[0][0])):
            # By the number in the id, as a database in use would list them.
            rows = sorted(rows, key=lambda row: (int(row[0].split("-")[1]), str(row[1])))
        lines = ",\n".join(f"    ({', '.join(map(_literal, row))})" for row in rows)
        statements.append(f"INSERT INTO {table} VALUES\n{lines};\n")
    head = "-- Written by families.py; the billing desk on 17 June 2026.\n\n"
    return head + "\n".join(statements)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float | Decimal):
        return str(value).lower()
    text = str(value).replace("'", "''")
    return f"'{text}'"
