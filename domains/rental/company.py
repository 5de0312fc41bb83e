"""The firm's rows: depots with machines and trucks, hirers with their people and hires, and the side tables.

A party (a hirer with people, operator cards and hires) is made from facts: those of a task's case, or drawn ones for the
hirers of no task. Ids follow from the party's place, so that new cases move no others.
"""

import random
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

Facts = dict[str, Any]
TODAY = date(2027, 3, 9)
MACHINES = 7
"""Of each class in a depot."""
SLOT_DAYS = 27
TABLES = (
    "hire_depots", "machine_classes", "class_rates", "machines", "hirers", "hirer_contacts", "operator_cards", "hires",
    "manager_clearances", "return_checks", "damage_items", "hire_charges", "hire_invoices", "deposits_held", "truck_slots",
    "truck_runs", "breakdowns", "hire_notices", "hire_log", "escalated_matters",
)  # fmt: skip
"""In the order in which foreign keys need them."""
FAR = date(2099, 1, 1)
TESTED = TODAY + timedelta(days=40)


@dataclass
class Company:
    """Rows by table, and who has which machine from when to when."""

    words: dict[str, Any]
    rows: dict[str, list[list[Any]]] = field(
        default_factory=lambda: {table: [] for table in TABLES}
    )
    taken: dict[str, list[tuple[date, date]]] = field(default_factory=dict)
    awaited: list[Facts] = field(default_factory=list)
    """Hires of machines that somebody else is to have after a case's hire."""

    def add(self, table: str, *row: Any) -> None:
        self.rows[table].append(list(row))

    def next_id(self, table: str, prefix: str) -> str:
        return f"{prefix}-{max(int(row[0][3:]) for row in self.rows[table]) + 1}"

    def new(self, table: str, prefix: str, first: int, *row: Any) -> str:
        """Add a row with the next id."""
        key = f"{prefix}-{first + len(self.rows[table])}"
        self.add(table, key, *row)
        return key

    def machines(self, depot: str, kind: str) -> list[list[Any]]:
        return [row for row in self.rows["machines"] if row[1:4] == [depot, kind, "ready"]]

    def seek(self, depot: str, kind: str, first: date, last: date) -> str | None:
        """The last machine that nobody has then and whose safety test does not run out soon."""
        for row in reversed(self.machines(depot, kind)):
            spans = self.taken.get(row[0], [])
            if row[4] > max(first, TESTED) and all(last < a or b < first for a, b in spans):
                return row[0]
        return None

    def take(self, depot: str, kind: str, first: date, last: date) -> str:
        """What `seek` finds, taken; LookupError when there is none."""
        machine = self.seek(depot, kind, first, last)
        if machine is None:
            raise LookupError(f"no {kind} in {depot} from {first} to {last}")
        self.taken.setdefault(machine, []).append((first, last))
        return machine

    def free(self, depot: str, kind: str, first: date, last: date) -> tuple[list[str], list[str]]:
        """Machines that are free and tested through the last day, and those that are free only."""
        out: set[str] = set()
        for row in self.rows["hires"]:
            end = max(row[4], TODAY) if row[11] == "on_hire" else row[4]
            if row[11] in ("on_hire", "reserved") and row[3] <= last and end >= first:
                out.add(row[2])
        all_free = [row for row in self.machines(depot, kind) if row[0] not in out]
        tested = [row[0] for row in all_free if row[4] >= last]
        return tested, [row[0] for row in all_free if row[4] < last]

    def card(self, depot: str, kind: str) -> tuple[float, float]:
        """Day rate and deposit of a class in a depot."""
        place, own = list(self.words["depots"]).index(depot), self.words["classes"][kind]
        return own[4][place], own[5][place]


def price(days: int, rate: float) -> float:
    """Of every seven days at most four are charged."""
    return round(rate * (days // 7 * 4 + min(days % 7, 4)), 2)


def found(words: dict[str, Any]) -> Company:
    """Depots with rate cards, machines and trucks."""
    company = Company(words)
    for depot, row in words["depots"].items():
        company.add("hire_depots", depot, *row)
    for kind, (name, heavy, group, tank, _, _) in words["classes"].items():
        company.add("machine_classes", kind, name, heavy, group, tank)
    rng = random.Random("machines")
    number = 1001
    for depot in words["depots"]:
        for kind in words["classes"]:
            company.add("class_rates", depot, kind, *company.card(depot, kind))
            for index in range(MACHINES):
                tested = TODAY + timedelta(days=rng.randint(60, 330))
                if index == 0:
                    tested = day(words["short_tests"].get(f"{depot}/{kind}", tested))
                state = "workshop" if rng.random() < 0.06 else "ready"
                seen = f"2027-03-0{rng.randint(1, 9)}T0{rng.randint(1, 7)}:10:00Z"
                tracker = seen if rng.random() < 0.5 else None
                sticker = rng.choice(words["stickers"])
                company.add("machines", f"MX-{number}", depot, kind, state, tested, tracker, None, sticker)  # fmt: skip
                number += 1
        for offset in range(SLOT_DAYS):
            run_day = TODAY + timedelta(days=offset)
            for half in ("am", "pm") if run_day.isoweekday() < 7 else ():
                full = f"{run_day} {half}" in words["full"][depot]
                company.add("truck_slots", depot, run_day, half, 0 if full else rng.randint(1, 4))
    return company


def settle(company: Company, facts: Facts, place: int) -> dict[str, str]:
    """Add a party; its ids by the names that cases use for them."""
    rng = random.Random(f"party {place}")
    hirer, me = f"HR-{300 + place}", f"CP-{2000 + 5 * place}"
    name = facts.get("firm", facts["person"])
    kind = facts.get("kind", "trade" if "firm" in facts else "private")
    site = f"{_plain(name)}.example" if "firm" in facts else "post.example"
    ids = {"hirer": hirer, "me": me, "person": facts["person"], "firm": name}
    people = [
        (facts["person"], facts.get("may_order", True), facts.get("owner", True)),
        *((*person, False)[:3] for person in facts.get("people", [])),
    ]
    for index, (person, may_order, owner) in enumerate(people):
        contact = f"CP-{2000 + 5 * place + index}"
        email = f"{_plain(person)}@{site}"
        ids |= {numbered("contact", index): contact, numbered("email", index): email}
        phone = f"+{rng.choice((44, 31, 32, 48))} 555 01{rng.randint(10, 99)} {rng.randint(10, 99)}"
        company.add("hirer_contacts", contact, hirer, person, email, phone, owner, may_order)
    first = len(company.rows["hire_charges"])
    depot = facts.get("depot") or facts["hires"][0]["depot"]
    for index, hire in enumerate(facts.get("hires", [])):
        _hire(company, ids, {"depot": depot, **hire}, place, index, kind)
    charged = sum(row[3] for row in company.rows["hire_charges"][first:])
    owes = round(facts.get("owes", 0) + max(charged, 0), 2)
    limit = None if kind == "private" else facts.get("limit", rng.choice((5000, 8000, 20000)))
    currency = company.words["depots"][depot][1]
    company.add("hirers", hirer, name, kind, currency, limit, owes, facts.get("stop", False))
    for group, holder, until in facts.get("cards", []):
        company.new("operator_cards", "OC", 401, hirer, holder, group, day(until))
    return ids


def numbered(name: str, index: int) -> str:
    return name if index == 0 else f"{name}{index + 1}"


def _plain(name: str) -> str:
    plain = name.lower().translate(str.maketrans("ąćęłńóśźżäöüéèëïç", "acelnoszzaoueeeic"))
    return ".".join("".join(c if c.isalnum() else " " for c in plain).split())


def _hire(
    company: Company, ids: dict[str, str], facts: Facts, place: int, index: int, kind: str
) -> None:
    hire = ids[numbered("hire", index)] = f"RH-{6000 + 4 * place + index}"
    depot, machine_class = facts["depot"], facts["class"]
    first, last = day(facts["from"]), day(facts["to"])
    usual = "reserved" if first > TODAY else "on_hire" if last >= TODAY else "returned"
    status = facts.get("status", usual)
    back = day(facts.get("back", last)) if status == "returned" else None
    card_rate, card_deposit = company.card(depot, machine_class)
    rate = facts.get("rate", card_rate)
    until = FAR if status == "on_hire" else max(last, back or last)
    machine = facts.get("machine") or company.take(depot, machine_class, first, until)
    ids[numbered("machine", index)] = machine
    if "next" in facts:
        theirs = {"from": facts["next"], "to": day(facts["next"]) + timedelta(days=6)}
        company.awaited.append({"depot": depot, "class": machine_class, "machine": machine, **theirs})  # fmt: skip
    for row in company.rows["machines"]:
        if row[0] == machine:
            row[4] = day(facts.get("tested", row[4]))
            row[5] = facts.get("tracker", row[5])
            row[7] = facts.get("sticker", row[7])
    whole = price((last - first).days + 1, rate)
    company.add(
        "hires", hire, ids["hirer"], machine, first, last, back, rate, facts.get("price", whole), facts.get("term", "flexible"),
        facts.get("waiver", False), facts.get("zone"), status, facts.get("note", ""),
    )  # fmt: skip
    facts = {"rate": rate, "deposit": card_deposit if kind == "private" else None, **facts}
    _charges(company, ids, hire, facts, status, first, last, back, kind)
    _check(company, ids, hire, facts, back, first)
    if facts["deposit"]:
        settled = facts["deposit"] if facts.get("settled") else None
        company.new("deposits_held", "DP", 801, hire, facts["deposit"], settled)
    for direction, on, half, *state in facts.get("runs", []):
        done = "done" if day(on) < TODAY else "planned"
        company.new("truck_runs", "TR", 2001, hire, direction, day(on), half, *(state or [done]))
    for symptom, reported, fixed, finding, detail in facts.get("breakdowns", []):
        row = (hire, symptom, detail, day(reported), day(fixed), finding)
        company.new("breakdowns", "BD", 301, *row)
    for entry, detail, at in facts.get("log", []):
        _log(company, hire, entry, detail, at)


def _charges(
    company: Company, ids: dict[str, str], hire: str, facts: Facts, status: str, first: date, last: date, back: date | None,
    kind: str,
) -> None:  # fmt: skip
    fees = dict(zip("ABC", company.words["depots"][facts["depot"]][2:5], strict=True))
    lines: list[tuple[Any, ...]] = []
    if status not in ("reserved", "cancelled"):
        whole = price((last - first).days + 1, facts["rate"])
        lines.append(("hire", facts.get("charged", whole), first))
    lines += [("transport", fees[facts["zone"]], day(run[1])) for run in facts.get("runs", [])]
    before = sum(line[1] for line in lines)
    if back and back > last:
        late = facts.get("late_days", (back - last).days)
        lines.append(("late", round(late * 1.25 * facts["rate"], 2), back))
    lines += [(item, amount, day(on)) for item, amount, on in facts.get("charges", [])]
    for item, amount, on in lines:
        _charge(company, hire, item, amount, on, None)
    for amount, reason, on in facts.get("credits", []):
        _charge(company, hire, "credit", -amount, day(on), reason)
        _log(company, hire, "credited", f"{reason} {amount}", f"{on} 11:00")
    paid_up = facts.get("paid", "before" if kind == "private" else "nothing")
    total = round(sum(line[1] for line in lines), 2)
    if status in ("on_hire", "returned"):
        paid = {"before": before, "all": total, "nothing": 0}[paid_up]
        if paid:
            on = first if paid_up == "before" else back or first
            _charge(company, hire, "payment", -paid, on, None)
    if kind == "private" or not total:
        return
    usual = [["paid" if paid_up == "all" else "sent", None]] if back else [["draft", None]]
    for state, reference in facts.get("invoices", usual):
        invoices = len([name for name in ids if name.startswith("invoice")])
        issued = min(TODAY, (back or first) + timedelta(days=1))
        invoice = f"HI-{7000 + len(company.rows['hire_invoices'])}"
        ids[numbered("invoice", invoices)] = invoice
        company.add("hire_invoices", invoice, hire, issued, total, state, reference)


def _charge(
    company: Company, hire: str, item: str, amount: float, on: date, reason: str | None
) -> None:
    at = f"{on}T16:00:00Z" if on < TODAY else f"{TODAY}T07:00:00Z"
    company.new(
        "hire_charges", "HC", 9001, hire, item, round(amount, 2), on, reason, None, None, at
    )


def _check(
    company: Company, ids: dict[str, str], hire: str, facts: Facts, back: date | None, first: date
) -> None:
    if back is None or facts.get("check", {}) is None:
        return
    check = facts.get("check", {})
    out = 400 + int(hire[3:]) % 900
    fuel = check.get("fuel", [100, 100])
    on = day(check.get("on", min(back + timedelta(days=1), TODAY)))
    hours = check.get("hours", [out, out + 4 * ((back - first).days + 1)])
    remark = check.get("remark", "")
    row = company.new("return_checks", "RC", 5001, hire, on, *fuel, *hours, remark)
    for what, cause, cost in check.get("damage", []):
        count = len([name for name in ids if name.startswith("damage")])
        damage = company.new("damage_items", "DI", 601, row, what, cause, cost, False)
        ids[numbered("damage", count)] = damage


def _log(company: Company, record: str, entry: str, detail: str, at: str) -> None:
    stamp = f"{at.replace(' ', 'T')}:00Z"
    company.new("hire_log", "HL", 3001, record, entry, detail, stamp)


def day(value: Any) -> Any:
    return date.fromisoformat(value) if isinstance(value, str) else value


def neighbour(company: Company, place: int) -> Facts:
    """Facts of a hirer that no task is about: some hires that are over, perhaps one that runs or is to come."""
    words, rng = company.words, random.Random(f"neighbour {place}")
    first, last = words["first"], words["last"]
    facts: Facts = {"person": f"{first[place * 5 % len(first)]} {last[place * 7 % len(last)]}"}
    if rng.random() < 0.65:
        firms, trades = words["firms"], words["trades"]
        facts["firm"] = f"{firms[place % len(firms)]} {trades[place // len(firms) % len(trades)]}"
        facts["kind"] = "public" if rng.random() < 0.1 else "trade"
        facts["people"] = [(f"{first[(place * 5 + 7) % len(first)]} {last[place * 11 % len(last)]}", rng.random() < 0.5)]  # fmt: skip
        facts["stop"] = rng.random() < 0.06
    facts["depot"] = rng.choice(list(words["depots"]))
    hires: list[Facts] = []
    for _ in range(rng.randint(1, 3)):
        start = date(2026, 9, 1) + timedelta(days=rng.randint(0, 175))
        hires.append(
            {"from": start, "to": start + timedelta(days=rng.randint(0, 8)), "paid": "all"}
        )
    if rng.random() < 0.45:
        start = TODAY + timedelta(days=rng.randint(-6, 12))
        hires.append({"from": start, "to": max(start, TODAY) + timedelta(days=rng.randint(1, 12))})
    facts["hires"] = [{**hire, **_details(company, facts, hire, rng)} for hire in hires]
    groups = {words["classes"][hire["class"]][2] for hire in facts["hires"]} - {None}
    until = date(2027, 6, 30) + timedelta(days=rng.randint(0, 500))
    facts["cards"] = [(group, facts["person"], until) for group in sorted(groups)]
    return facts


def _details(company: Company, facts: Facts, hire: Facts, rng: random.Random) -> Facts:
    """Class, site, runs and return check of a drawn hire."""
    words, depot, (first, last) = company.words, facts["depot"], (hire["from"], hire["to"])
    kinds = [kind for kind in words["classes"] if f"{depot}/{kind}" not in words["emptied"]]
    kind = rng.choice(kinds)
    while company.seek(depot, kind, first, FAR if first <= TODAY <= last else last) is None:
        kind = rng.choice(kinds)
    found: Facts = {"class": kind, "waiver": rng.random() < 0.4, "note": rng.choice(words["notes"])}
    if rng.random() < 0.5 and first.isoweekday() < 7:
        half = "am" if words["classes"][kind][1] else rng.choice(("am", "pm"))
        found |= {"zone": rng.choice("ABC"), "runs": [("deliver", first, half)]}
    if last < TODAY:
        damage = [rng.choice(words["damage"])] if rng.random() < 0.12 else []
        found |= {
            "check": {"damage": damage, "fuel": [100, 100]},
            "settled": True,
        }
    if rng.random() < 0.1:
        symptom, detail = rng.choice(list(words["breakdowns"].items()))
        fixed = first + timedelta(days=1)
        if fixed < TODAY:
            found["breakdowns"] = [(symptom, first, fixed, "wear", detail)]
    return found


def fill(company: Company, places: list[int], more: int) -> None:
    """The hirers of no task; those from place `more` on have what others wait for, and all machines of emptied classes."""
    for place in places:
        settle(company, neighbour(company, place), place)
    wanted = company.awaited.copy()
    span = (TODAY - timedelta(days=5), TODAY + timedelta(days=24))
    for name in company.words["emptied"]:
        depot, kind = name.split("/")
        hire = {"depot": depot, "class": kind, "from": span[0], "to": span[1]}
        wanted += [hire for group in company.free(depot, kind, *span) for _ in group]
    for index, hire in enumerate(wanted):
        settle(company, _crew(company.words, hire, index), more + index)


def _crew(words: dict[str, Any], hire: Facts, index: int) -> Facts:
    """Facts of a firm with nothing but this hire."""
    person = f"{words['first'][-1 - index]} {words['last'][-1 - index]}"
    group = words["classes"][hire["class"]][2]
    cards = [(group, person, "2028-06-30")] if group else []
    firm = f"{words['firms'][index]} Crew"
    return {"person": person, "firm": firm, "cards": cards, "hires": [hire]}


def history(company: Company, first_hire: int) -> None:
    """Notices, log, clearances and escalations of the hires from this index on."""
    contacts = {row[1]: row[0] for row in reversed(company.rows["hirer_contacts"])}
    for index, row in enumerate(company.rows["hires"][first_hire:]):
        hire, hirer, starts_on, status = row[0], row[1], row[3], row[11]
        asked = min(starts_on, TODAY) - timedelta(days=3)
        at = f"{asked}T10:00:00Z"
        company.new("hire_notices", "HN", 4001, contacts[hirer], "hire_confirmed", hire, at)
        _log(company, hire, "reserved", "As asked for.", f"{asked} 09:58")
        if status != "returned":
            continue
        over = f"{row[5] + timedelta(days=2)}T11:30:00Z"
        if index % 11 == 0:
            amount = round(row[6] / 2, 2)
            _charge(company, hire, "credit", -amount, row[5] + timedelta(days=2), "downtime")
            _log(company, hire, "credited", f"downtime {amount}", over[:16].replace("T", " "))
            company.new("hire_notices", "HN", 4001, contacts[hirer], "credit_given", hire, over)
        elif index % 13 == 4:
            company.new("manager_clearances", "MC", 71, "credit", hire, round(row[6] * 2, 2), "granted", over)  # fmt: skip
        elif index % 17 == 3:
            company.new("escalated_matters", "EM", 31, contacts[hirer], "accounts", hire, "Please call about an invoice copy.", over)  # fmt: skip


def seed_sql(company: Company) -> str:
    """Text of world/seed.sql."""
    statements = []
    for table in TABLES:
        rows = company.rows[table]
        if "-" in str(rows[0][0]):
            # By the number in the id, as a database in use would list them.
            rows = sorted(rows, key=lambda row: int(str(row[0]).split("-")[1]))
        lines = ",\n".join(f"    ({', '.join(map(_literal, row))})" for row in rows)
        statements.append(f"INSERT INTO {table} VALUES\n{lines};\n")
    head = "-- Written by families.py; Marram Plant Hire on 9 March 2027.\n\n"
    return head + "\n".join(statements)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    text = str(value).replace("'", "''")
    return f"'{text}'"
