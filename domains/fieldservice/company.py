"""The company's rows: households, firms and landlords with units, jobs, slots, invoices and side tables.

A household is made from facts: those of a task's case, or drawn ones for the neighbours of no task. Ids follow from
the household's place, so that new cases move no others.
"""

import random
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

Facts = dict[str, Any]
TODAY = date(2026, 3, 12)
DAYS_AHEAD = 14
"""Working days for which the technicians' half-days are known."""
HALVES = ("am", "pm")
LEAVE = "on leave"
PLANS = {"basic": (118, 1, 72), "plus": (246, 1, 48), "premium": (438, 2, 24)}
"""Yearly fee, visits a year, response hours."""
CURRENCY = {"bodensee": "EUR", "thurgau": "CHF", "vorarlberg": "EUR"}
COUNTRY = {"bodensee": "DE", "thurgau": "CH", "vorarlberg": "AT"}
CERTIFICATE = {"gas_boiler": 1, "heat_pump": 2, "oil_boiler": None}
"""Column of a technician's row in words.yaml that the kind of unit asks for."""
TABLES = (
    "customers", "contacts", "sites", "contracts", "units", "technicians", "jobs", "slots", "parts", "job_parts",
    "invoices", "approvals", "credits", "notifications", "journal", "escalations",
)  # fmt: skip
"""In the order in which foreign keys need them."""


@dataclass
class Company:
    """Rows by table, and who is where in which half-day."""

    words: dict[str, Any]
    rows: dict[str, list[tuple[Any, ...]]] = field(
        default_factory=lambda: {table: [] for table in TABLES}
    )
    slots: dict[tuple[str, date, str], str | None] = field(default_factory=dict)
    technicians: dict[str, tuple[str, bool, bool]] = field(default_factory=dict)
    """Region and the two certificates by id."""

    def free(self, region: str, kind: str, day: date, half: str, certified: bool = True) -> str:
        """The first free technician of the region with or without the certificate; LookupError when there is none."""
        column = CERTIFICATE[kind]
        for technician, facts in self.technicians.items():
            fits = column is None or bool(facts[column])
            if facts[0] == region and fits == certified:
                if self.slots.get((technician, day, half), LEAVE) is None:
                    return technician
        raise LookupError(f"nobody in {region} for {kind} on {day} {half}, certified {certified}")

    def add(self, table: str, *row: Any) -> None:
        self.rows[table].append(row)

    def next_id(self, table: str, prefix: str) -> str:
        return f"{prefix}-{max(int(row[0][2:]) for row in self.rows[table]) + 1}"


def workdays(start: date, count: int) -> list[date]:
    days = [start + timedelta(days=offset) for offset in range(count * 2)]
    return [day for day in days if day.weekday() < 5][:count]


def found(words: dict[str, Any], rng: random.Random) -> Company:
    """Technicians with their coming half-days, and the parts in stock."""
    company = Company(words)
    number = 11
    for region, people in words["technicians"].items():
        for name, gas, refrigerant in people:
            technician = f"E-{number}"
            number += 1
            company.technicians[technician] = (region, gas, refrigerant)
            company.add("technicians", technician, name, region, gas, refrigerant)
            for day in workdays(TODAY, DAYS_AHEAD):
                for half in HALVES:
                    away = (gas or refrigerant) and rng.random() < 0.2
                    company.slots[technician, day, half] = LEAVE if away else None
    for index, (name, price, stock, fits) in enumerate(words["parts"]):
        company.add("parts", f"P-{801 + index}", name, price, stock, list(fits))
    return company


def settle(company: Company, facts: Facts, place: int) -> dict[str, str]:
    """Add a household; its ids by the names that cases use for them."""
    rng = random.Random(f"household {place}")
    region, postcode = next(
        (region, code)
        for region, cities in company.words["cities"].items()
        for city, code in cities
        if city == facts["city"]
    )
    owner = facts.get("owner", facts["person"])
    ids = {"customer": f"C-{100 + place}", "site": f"S-{400 + place}", "region": region}
    ids["contact"] = ids["owner"] = f"K-{200 + 2 * place}"
    hold, kind = facts.get("hold", False), facts.get("customer_kind", "household")
    company.add(
        "customers", ids["customer"], facts.get("customer", owner), kind, CURRENCY[region], hold,
        _day(facts.get("since", f"{rng.randint(2009, 2023)}-0{rng.randint(1, 9)}-{rng.randint(10, 28)}")),
    )  # fmt: skip
    if owner != facts["person"]:
        ids["contact"] = f"K-{201 + 2 * place}"
        _contact(company, ids["owner"], ids["customer"], owner, "owner", True, rng)
    role = facts.get("role", "owner" if owner == facts["person"] else "tenant")
    may_order = facts.get("may_order", role in ("owner", "manager"))
    ids["email"] = _contact(
        company, ids["contact"], ids["customer"], facts["person"], role, may_order, rng
    )
    street = f"{rng.choice(company.words['streets'])} {rng.randint(1, 88)}"
    ids["street"] = street
    access = facts.get("access", rng.choice(company.words["access"]))
    company.add(
        "sites", ids["site"], ids["customer"], street, postcode, facts["city"], COUNTRY[region], region, access
    )  # fmt: skip
    if facts.get("plan"):
        ids["contract"] = _contract(company, ids, facts, place)
    units = [facts, *facts.get("units", [])]
    for index, unit in enumerate(units):
        ids[_numbered("unit", index)] = _unit(company, ids, {"plan": None, **unit}, place, index)
    for index, job in enumerate(facts.get("jobs", [])):
        kind = units[job.get("unit", 0)].get("kind", "gas_boiler")
        _job(company, ids, job, kind, place, index)
    return ids


def _numbered(name: str, index: int) -> str:
    return name if index == 0 else f"{name}{index + 1}"


def _contact(
    company: Company, contact: str, customer: str, name: str, role: str, may_order: bool,
    rng: random.Random,
) -> str:  # fmt: skip
    plain = name.lower().translate(
        str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "é": "e", " ": "."})
    )
    email = f"{plain}@example.{rng.choice(('com', 'org', 'net'))}"
    phone = f"+{rng.choice((49, 41, 43))} {rng.randint(700, 799)} 555 01{rng.randint(10, 99)}"
    company.add("contacts", contact, customer, name, email, phone, role, may_order)
    return email


def _contract(company: Company, ids: dict[str, str], facts: Facts, place: int) -> str:
    fee, visits, hours = PLANS[facts["plan"]]
    contract = f"M-{500 + place}"
    company.add(
        "contracts", contract, ids["customer"], facts["plan"], facts.get("fee", fee), facts.get("visits", visits),
        facts.get("hours", hours), _day(facts.get("contract_start", "2023-05-01")), _day(facts.get("contract_ends")),
    )  # fmt: skip
    return contract


def _unit(company: Company, ids: dict[str, str], facts: Facts, place: int, index: int) -> str:
    unit, kind = f"U-{4000 + 3 * place + index}", facts.get("kind", "gas_boiler")
    models = company.words["models"][kind]
    ids[_numbered("model", index)] = model = facts.get(
        "model", models[(place + index) % len(models)]
    )
    warranty = _day(facts.get("warranty", "2022-06-30"))
    serial = (
        f"{kind[0].upper()}{warranty.year - 2002}-{(place * 7919 + index * 104729) % 90000 + 10000}"
    )
    ids[_numbered("serial", index)] = serial
    covered = ids.get("contract") if index == 0 or facts.get("covered") else None
    installed = facts.get(
        "installed", date(warranty.year - 2, warranty.month, min(warranty.day, 28))
    )
    company.add(
        "units", unit, ids["site"], covered, kind, model, serial, _day(installed), warranty,
        facts.get("status", "in_service"),
    )  # fmt: skip
    _journal(company, unit, facts.get("unit_journal", []))
    return unit


def _job(
    company: Company, ids: dict[str, str], facts: Facts, kind: str, place: int, index: int
) -> None:
    job = ids[_numbered("job", index)] = f"J-{6000 + 5 * place + index}"
    unit = ids[_numbered("unit", facts.get("unit", 0))]
    facts = _with_wish(company, facts, ids["region"], kind)
    status = facts.get(
        "status", "scheduled" if "visit" in facts else "done" if "arrived" in facts else "open"
    )
    arrived = f"{facts['arrived'].replace(' ', 'T')}:00Z" if "arrived" in facts else None
    job_kind = facts.get("kind", "chargeable")
    priority = facts.get("priority", "urgent" if job_kind == "emergency" else "normal")
    reported = f"{facts['reported'].replace(' ', 'T')}:00Z"
    reporter = ids[facts.get("by", "contact")]
    company.add(
        "jobs", job, unit, reporter, job_kind, priority, status, facts["text"], reported, arrived
    )
    if "visit" in facts:
        day, half = _day(facts["visit"][0]), facts["visit"][1]
        technician = company.free(ids["region"], kind, day, half)
        company.slots[technician, day, half] = job
        ids[_numbered("technician", index)] = technician
        _notice(company, reporter, "visit_booked", job, reported)
    if arrived:
        moment = datetime.fromisoformat(arrived)
        _past_visit(company, ids["region"], kind, moment, job)
    for part, quantity in facts.get("parts", {}).items():
        price = next(row[2] for row in company.rows["parts"] if row[0] == part)
        company.add("job_parts", job, part, quantity, price)
    _journal(company, job, facts.get("journal", []))
    if "invoice" in facts:
        invoice = ids[_numbered("invoice", index)] = f"I-{7000 + 5 * place + index}"
        _invoice(company, invoice, job, ids["region"], facts["invoice"])


def _with_wish(company: Company, facts: Facts, region: str, kind: str) -> Facts:
    """With the wished visit where somebody is free then; otherwise the job stays open."""
    if "wish" not in facts:
        return facts
    day, half = facts["wish"]
    try:
        company.free(region, kind, date.fromisoformat(day), half)
    except LookupError:
        return facts
    return {**facts, "visit": facts["wish"]}


def _past_visit(company: Company, region: str, kind: str, moment: datetime, job: str) -> None:
    """Where everybody was busy, somebody came between two visits and the table does not tell who."""
    half = "am" if moment.hour < 12 else "pm"
    column = CERTIFICATE[kind]
    for technician, facts in company.technicians.items():
        key = (technician, moment.date(), half)
        if facts[0] == region and (column is None or facts[column]) and key not in company.slots:
            company.slots[key] = job
            return


def _invoice(company: Company, invoice: str, job: str, region: str, facts: Facts) -> None:
    parts = tuple(facts.get(name, 0) for name in ("callout", "labour", "material"))
    issued = _day(facts["issued"])
    original = _day(facts.get("due", issued + timedelta(days=30)))
    status = facts.get("status", "open")
    company.add(
        "invoices", invoice, job, CURRENCY[region], *parts, round(sum(parts), 2), issued, original,
        _day(facts.get("moved", original)), status,
    )  # fmt: skip
    for amount, reason, at in facts.get("credits", []):
        number = f"R-{31 + len(company.rows['credits'])}"
        company.add("credits", number, invoice, amount, reason, None, f"{at}T10:00:00Z")
        _journal(company, invoice, [["credited", f"{amount} {reason}", f"{at} 10:00"]])


def _journal(company: Company, reference: str, entries: list[list[str]]) -> None:
    for action, detail, at in entries:
        number = f"L-{1001 + len(company.rows['journal'])}"
        company.add("journal", number, reference, action, detail, f"{at.replace(' ', 'T')}:00Z")


def _notice(company: Company, contact: str, template: str, reference: str, at: str) -> None:
    number = f"N-{3001 + len(company.rows['notifications'])}"
    company.add("notifications", number, contact, template, reference, at)


def _day(value: Any) -> Any:
    return date.fromisoformat(value) if isinstance(value, str) else value


def neighbour(words: dict[str, Any], place: int) -> Facts:
    """Facts of a household that no task is about."""
    rng = random.Random(f"neighbour {place}")
    cities = [city for places in words["cities"].values() for city, _ in places]
    person = f"{words['first'][place * 5 % len(words['first'])]} {words['last'][place * 7 % len(words['last'])]}"
    kind = rng.choice(list(CERTIFICATE))
    facts: Facts = {
        "person": person,
        "city": rng.choice(cities),
        "kind": kind,
        "plan": rng.choice((None, "basic", "plus", "plus", "premium")),
        "hold": rng.random() < 0.08,
        "warranty": f"{rng.randint(2019, 2027)}-0{rng.randint(1, 9)}-{rng.randint(10, 28)}",
        "jobs": [_past_job(words, rng) for _ in range(rng.randint(1, 3))],
    }
    if place % 11 == 0 and place // 11 < len(words["firms"]):
        facts |= {"customer": words["firms"][place // 11], "customer_kind": "business"}
    if rng.random() < 0.3:
        day = rng.choice(workdays(TODAY, DAYS_AHEAD)[7:])
        text = rng.choice(words["faults"])
        visit = [day.isoformat(), rng.choice(HALVES)]
        facts["jobs"].append({"text": text, "reported": "2026-03-10 09:20", "wish": visit})
    return facts


def _past_job(words: dict[str, Any], rng: random.Random) -> Facts:
    reported = datetime(2025, 9, 1, 8, 0) + timedelta(
        days=rng.randint(0, 180), minutes=rng.randint(0, 560)
    )
    arrived = reported + timedelta(hours=rng.randint(2, 90))
    while arrived.weekday() > 4 or not 7 <= arrived.hour <= 16:
        arrived += timedelta(hours=7)
    labour, material = 68 * rng.randint(1, 4) / 2, round(rng.choice((0, 0, 27.9, 44, 74, 133.4)), 2)
    issued = arrived.date() + timedelta(days=rng.randint(1, 5))
    invoice = {"callout": 89, "labour": labour, "material": material, "issued": issued}
    invoice["status"] = "open" if issued > date(2026, 2, 20) else "paid"
    return {
        "text": rng.choice(words["faults"]),
        "reported": f"{reported:%Y-%m-%d %H:%M}",
        "arrived": f"{arrived:%Y-%m-%d %H:%M}",
        "invoice": invoice,
    }


def office_history(company: Company, invoices: list[tuple[Any, ...]]) -> None:
    """Earlier approvals with their credits, and escalations, of these invoices."""
    contacts = {row[0]: row[2] for row in company.rows["jobs"]}
    for index, row in enumerate(invoices[::4]):
        invoice, job, amount, at = row[0], row[1], row[6], f"{row[7]}T15:20:00Z"
        if index % 3 == 0:
            desk = ("dispatch", "purchasing", "other")[index // 3 % 3]
            note = "Please call the customer back about the visit."
            company.add("escalations", f"X-{21 + index}", contacts[job], desk, job, note, at)
            continue
        approval = f"A-{61 + index}" if amount > 150 else None
        if approval:
            company.add("approvals", approval, "credit", invoice, amount, "granted", at)
        number = f"R-{31 + len(company.rows['credits'])}"
        company.add("credits", number, invoice, amount, "covered", approval, at)
        _journal(company, invoice, [["credited", "Covered by the contract.", f"{row[7]} 15:20"]])
        _notice(company, contacts[job], "credit_note", invoice, at)


def seed_sql(company: Company) -> str:
    """Text of world/seed.sql."""
    company.rows["slots"] = [
        (technician, day, half, job == LEAVE, None if job == LEAVE else job)
        for (technician, day, half), job in sorted(company.slots.items())
    ]
    statements = []
    for table in TABLES:
        rows = company.rows[table]
        # By the number in the id, as a database in use would list them.
        rows = rows if table == "slots" else sorted(rows, key=_age)
        lines = ",\n".join(f"    ({', '.join(map(_literal, row))})" for row in rows)
        if rows:
            statements.append(f"INSERT INTO {table} VALUES\n{lines};\n")
    head = "-- Written by families.py; the service desk on 12 March 2026.\n\n"
    return head + "\n".join(statements)


def _age(row: tuple[Any, ...]) -> tuple[int, str]:
    return int(str(row[0]).split("-")[1]), str(row[1])


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, list):
        return "ARRAY[" + ", ".join(map(_literal, value)) + "]"
    text = str(value).replace("'", "''")
    return f"'{text}'"
