"""The rows of Carrick Clinics: patients with proxies, letters, visits, fees and waiting entries, and the clinicians' calendar.

A patient is made from facts: those of a task's case, or drawn ones for people that no task is about. Ids follow from the
patient's place, so that new cases move no others, and a slot's id from its clinician, day and hour.
"""

import random
import re
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

Facts = dict[str, Any]
Ids = dict[str, str]
TABLES = (
    "clinic_sites", "clinicians", "visit_types", "insurers", "patients", "patient_proxies", "referral_letters",
    "cover_authorisations", "clinic_slots", "appointments", "interpreter_bookings", "waiting_entries", "visit_fees",
    "lead_decisions", "fee_waivers", "visit_reminders", "patient_messages", "audit_entries", "escalated_cases",
)  # fmt: skip
"""In the order in which foreign keys need them."""
TODAY = date(2026, 10, 5)
EPOCH = date(2025, 6, 2)
"""Ids of slots count days from here."""
LAST_DAY = date(2026, 11, 27)
"""Of the calendar."""
FIRST_FREE = date(2026, 10, 13)
"""What is free before is the waiting list's, and told by cases only."""
WAITS_FOR = {"NWY": ("cardiology", "cardio_first"), "DLK": ("ent", "ent_first")}
"""The queues of those whom no task is about."""
HOURS = ("09:00", "09:40", "10:20", "11:00", "11:40", "13:30", "14:10", "14:50", "15:30", "16:10")
"""At which visits begin that nobody tells otherwise."""
TAKES_A_SLOT = ("booked", "completed", "no_show")


@dataclass
class Company:
    """Rows by table, and what is needed to add more."""

    words: dict[str, Any]
    rows: dict[str, list[tuple[Any, ...]]] = field(
        default_factory=lambda: {table: [] for table in TABLES}
    )
    slots: dict[str, date] = field(default_factory=dict)
    """Day by id."""
    taken: set[str] = field(default_factory=set)
    told: dict[tuple[str, date], int] = field(default_factory=dict)
    """The place whose case says what is free with a clinician on a day."""

    def add(self, table: str, *row: Any) -> None:
        self.rows[table].append(row)

    def numbered(self, table: str, letters: str, first: int, *row: Any) -> str:
        """Add a row of a side table under the next number, counted from `first`."""
        new = f"{letters}-{first + len(self.rows[table])}"
        self.add(table, new, *row)
        return new

    def next_id(self, table: str, after: int = 1) -> str:
        rows = self.rows[table]
        return f"{rows[0][0][:2]}-{max(int(row[0][3:]) for row in rows) + after}"

    def audit(self, subject: str, action: str, detail: str, at: str) -> None:
        self.numbered("audit_entries", "AD", 8001, subject, action, detail, at)

    def clinicians(self, specialty: str, site: str) -> list[str]:
        """Names, consultants first."""
        listed = self.words["clinicians"].items()
        return [name for name, (special, _, house) in listed if (special, house) == (specialty, site)]  # fmt: skip

    def slot(self, who: str, day: date, at: str, minutes: int, held: str | None = None) -> str:
        """Id of a slot, which is made where there is none; ValueError on a weekend."""
        if day.weekday() > 4:
            raise ValueError(f"{who} does not work on {day}")
        number = list(self.words["clinicians"]).index(who)
        tenth = (int(at[:2]) - 8) * 6 + int(at[3]) if at[4] == "0" else None
        if tenth is None:
            raise ValueError(f"{at} is not at full ten minutes")
        slot = f"SL-{100000 + number * 40000 + (day - EPOCH).days * 60 + tenth}"
        if slot not in self.slots:
            self.slots[slot] = day
            self.add("clinic_slots", slot, f"CN-{11 + number}", day, at, minutes, held)
        return slot


def found(words: dict[str, Any]) -> Company:
    """Houses, clinicians, visit types and insurers."""
    company = Company(words)
    company.add("clinic_sites", "NWY", "Newry", "GBP")
    company.add("clinic_sites", "DLK", "Dundalk", "EUR")
    for number, (name, (specialty, grade, site)) in enumerate(words["clinicians"].items(), 11):
        company.add("clinicians", f"CN-{number}", name, specialty, grade, site)
    for name, facts in words["types"].items():
        company.add("visit_types", name, *facts)
    for number, (name, types) in enumerate(words["insurers"].items(), 1):
        company.add("insurers", f"IN-{number}", name, "{" + ",".join(types) + "}")
    return company


def settle(company: Company, facts: Facts, place: int, prefix: str = "", seat: int = 0) -> Ids:
    """Add a patient; their ids by the names that cases use for them, those of `more` patients with b_ and c_ before them."""
    rng = random.Random(f"patient {place} {seat}")
    name, proxy = facts.get("patient", facts["person"]), facts.get("proxy")
    site = facts.get("site", "NWY")
    ids: Ids = {"patient": f"PT-{1000 + 4 * place + seat}", "name": name, "site": site}
    ids["channel"] = facts.get("channel", ("sms", "email", "call")[place % 3])
    email = facts.get("email", f"{plain(name)}@carrickpost.example")
    insurer = facts.get("insurer")
    company.add(
        "patients", ids["patient"], name, _day(facts.get("born", f"{rng.randint(1941, 1999)}-0{rng.randint(1, 9)}-{rng.randint(10, 28)}")),
        email, facts.get("phone", f"{'028 30' if site == 'NWY' else '042 93'}{rng.randint(10000, 99999)}"),
        f"{rng.randint(2, 90)} {rng.choice(company.words['streets'])}, {rng.choice(company.words['towns'][site])}",
        ids["channel"], f"IN-{list(company.words['insurers']).index(insurer) + 1}" if insurer else None,
        _day(facts.get("cover", "2027-06-30")) if insurer else None, facts.get("note", ""),
    )  # fmt: skip
    ids["email"], ids["person"] = email, facts["person"]
    if proxy:
        ids["email"] = f"{plain(facts['person'])}@lagoonmail.example"
    entries = [{"name": facts["person"], "email": ids["email"], **proxy}] if proxy else []
    for index, entry in enumerate([*entries, *facts.get("proxies", [])]):
        px = ids[named("proxy", index)] = f"PX-{2000 + 6 * place + 2 * seat + index}"
        address = entry.get("email", f"{plain(entry['name'])}@lagoonmail.example")
        company.add(
            "patient_proxies", px, ids["patient"], entry["name"], address, entry.get("relation", "carer"),
            entry.get("scope", "visits"), _day(entry.get("until", "2027-03-31")), entry.get("ended", False),
        )  # fmt: skip
    for action, detail, at in facts.get("log", []):
        company.audit(ids["patient"], action, detail, f"{at}T09:10:00Z")
    _papers(company, ids, facts, place, seat)
    for index, visit in enumerate(facts.get("visits", [])):
        _visit(company, ids, visit, index, place, seat)
    for index, slot in enumerate(facts.get("slots", [])):
        _free(company, ids, slot, index, place)
    for index, other in enumerate(facts.get("more", []), 1):
        letter = "abc"[index]
        told = {"site": site, "person": other.get("name", "?"), **other}
        found = settle(company, told, place, f"{letter}_", index)
        ids |= {f"{letter}_{key}": value for key, value in found.items()}
    return ids


def named(name: str, index: int) -> str:
    return name if index == 0 else f"{name}{index + 1}"


def plain(name: str) -> str:
    letters = {
        "á": "a",
        "é": "e",
        "í": "i",
        "ó": "o",
        "ú": "u",
        "ł": "l",
        "š": "s",
        "'": "",
        "’": "",
    }
    return re.sub(r"[^a-z0-9]+", ".", name.lower().translate(str.maketrans(letters))).strip(".")


def _papers(company: Company, ids: Ids, facts: Facts, place: int, seat: int) -> None:
    """Letters, authorisations and waiting entries."""
    base = 6 * place + 2 * seat
    for index, letter in enumerate(facts.get("letters", [])):
        number = ids[named("letter", index)] = f"RL-{3000 + base + index}"
        special = letter["for"]
        company.add(
            "referral_letters", number, ids["patient"], special, letter.get("priority", "routine"),
            letter.get("visits", 1), _day(letter.get("received", "2026-09-14")), _day(letter.get("valid", "2027-03-14")),
            letter.get("status", "open"), letter.get("text", company.words["reasons"][special]),
        )  # fmt: skip
    for index, paper in enumerate(facts.get("auths", [])):
        number = ids[named("auth", index)] = f"AU-{5000 + base + index}"
        company.add(
            "cover_authorisations", number, ids["patient"], paper["type"], paper.get("visits", 1),
            _day(paper.get("from", "2026-09-01")), _day(paper.get("until", "2026-12-31")), paper.get("status", "granted"),
        )  # fmt: skip
    for index, entry in enumerate(facts.get("waiting", [])):
        number = ids[named("wait", index)] = f"WL-{7000 + base + index}"
        letter = ids[named("letter", entry.get("letter", 0))]
        since = _day(entry["since"])
        company.add(
            "waiting_entries", number, ids["patient"], entry["type"], entry.get("site", ids["site"]),
            entry.get("priority", "routine"), letter, since, entry.get("status", "waiting"),
        )  # fmt: skip
        told = f"{since}T11:05:00Z"
        company.audit(number, "waiting_joined", "Joined with the letter.", told)
        company.numbered(
            "patient_messages", "MS", 3001, ids["patient"], "waiting_joined", number, told
        )


def _visit(company: Company, ids: Ids, visit: Facts, index: int, place: int, seat: int) -> None:
    """A visit with its reminder, interpreter, fees, audit and messages."""
    number = ids[named("visit", index)] = f"AP-{20000 + 20 * place + 6 * seat + index}"
    special, _, minutes, *_ = company.words["types"][visit["type"]]
    site, day, status = (
        visit.get("site", ids["site"]),
        _day(visit["day"]),
        visit.get("status", "booked"),
    )
    who = _who(company, visit, special, site)
    slot = company.slot(who, day, visit.get("at", HOURS[place % 10]), minutes)
    if status in TAKES_A_SLOT:
        if slot in company.taken:
            raise ValueError(f"place {place}: {who} has a visit on {day} at that hour already")
        company.taken.add(slot)
    letter = ids[named("letter", visit["letter"])] if "letter" in visit else None
    auth = ids[named("auth", visit["auth"])] if "auth" in visit else None
    payer = visit.get("payer", "insurer" if auth else "self")
    company.add(
        "appointments", number, ids["patient"], visit["type"], slot, payer, letter, auth,
        visit.get("moves", 0), status, visit.get("review_weeks"),
    )  # fmt: skip
    at = f"{min(day - timedelta(days=24), TODAY - timedelta(days=6))}T10:20:00Z"
    company.audit(number, "booked", "Booked on the telephone.", at)
    company.numbered("patient_messages", "MS", 3001, ids["patient"], "booked", number, at)
    for action, detail, on in visit.get("log", []):
        company.audit(number, action, detail, f"{on}T12:40:00Z")
    if status == "booked" and (planned := visit.get("reminder", reminder_day(day))):
        company.add("visit_reminders", number, _day(planned), ids["channel"], "planned")
    elif status == "completed":
        company.add("visit_reminders", number, reminder_day(day, past=True), ids["channel"], "sent")
    if "interpreter" in visit:
        company.add("interpreter_bookings", number, visit["interpreter"], day)
    for fee in visit.get("fees", []):
        known = sum(re.fullmatch(r"fee\d*", name) is not None for name in ids)
        _fee(company, ids, fee, number, site, ids.setdefault(named("fee", known), f"FE-{6000 + 6 * place + 2 * seat + known}"))  # fmt: skip


def _fee(company: Company, ids: Ids, fee: Facts, visit: str, site: str, number: str) -> None:
    on, amount = _day(fee["charged"]), Decimal(str(fee["amount"]))
    company.add(
        "visit_fees", number, visit, fee.get("kind", "late_cancel"), "GBP" if site == "NWY" else "EUR",
        amount, on, fee.get("status", "open"),
    )  # fmt: skip
    company.audit(number, "fee_raised", "Charged by the rules.", f"{on}T16:00:00Z")
    company.numbered(
        "patient_messages", "MS", 3001, ids["patient"], "fee_raised", number, f"{on}T16:00:00Z"
    )
    for action, detail, at in fee.get("log", []):
        company.audit(number, action, detail, f"{at}T15:20:00Z")
    for off, reason, day in fee.get("waivers", []):
        at = f"{day}T15:00:00Z"
        paid = fee.get("status") == "paid"
        company.numbered("fee_waivers", "WV", 901, number, Decimal(str(off)), reason, paid, None, at)  # fmt: skip
        company.audit(number, "fee_waived", f"Taken off: {reason}.", at)
        company.numbered("patient_messages", "MS", 3001, ids["patient"], "fee_waived", number, at)


def _free(company: Company, ids: Ids, slot: Facts, index: int, place: int) -> None:
    """A free slot of a case, whose clinician then has no other free one on that day."""
    day = _day(slot["day"])
    who = next(name for name in company.words["clinicians"] if slot["who"] in name)
    other = company.told.setdefault((who, day), place)
    if other != place:
        raise ValueError(f"places {other} and {place} both tell of {who} on {day}")
    made = company.slot(who, day, slot["at"], slot.get("minutes", 40), slot.get("held"))
    if made in company.taken:
        raise ValueError(f"place {place}: {who} is not free on {day} {slot['at']}")
    company.taken.add(made)
    ids[named("slot", index)] = made


def _who(company: Company, visit: Facts, specialty: str, site: str) -> str:
    listed = company.clinicians(specialty, site)
    return next(name for name in listed if visit.get("who", "") in name)


def reminder_day(day: date, past: bool = False) -> date | None:
    """Two days before, the Friday before a weekend; None where that is not after today."""
    told = day - timedelta(days=2)
    told -= timedelta(days=max(0, told.weekday() - 4))
    return told if past or told > TODAY else None


def _day(value: Any) -> Any:
    return date.fromisoformat(value) if isinstance(value, str) else value


def neighbour(company: Company, place: int) -> Facts:
    """Facts of a patient that no task is about."""
    rng, words = random.Random(f"neighbour {place}"), company.words
    site = ("NWY", "DLK")[place % 2]
    facts: Facts = {
        "person": f"{words['first'][place * 5 % 26]} {words['last'][place * 7 % 25]}",
        "site": site, "note": rng.choice(words["notes"]), "letters": [], "visits": [], "slots": [], "waiting": [],
    }  # fmt: skip
    if place % 3 == 0:
        facts["insurer"] = rng.choice(list(words["insurers"]))
    if place % 5 == 0:
        facts["proxies"] = [{"name": f"{words['first'][place % 26]} {words['last'][place % 25]}", "relation": "partner"}]  # fmt: skip
    for special in rng.sample(["dermatology", "cardiology", "orthopaedics", "ent"], 2):
        first = next(name for name, kind in words["types"].items() if kind[:2] == [special, "first"])  # fmt: skip
        review, index = first.replace("first", "review"), len(facts["letters"])
        facts["letters"].append({"for": special, "received": "2026-01-12", "valid": "2027-01-12"})
        seen = _some_hour(company, rng, special, site, date(2026, 3, 2), date(2026, 9, 25))
        facts["visits"].append({"type": first, "letter": index, "status": "completed", "review_weeks": rng.choice((6, 8, 12, 26)), **seen})  # fmt: skip
        status = rng.choice(("booked", "booked", "booked", "cancelled"))
        first_day = FIRST_FREE if status == "cancelled" else date(2026, 10, 6)
        when = _some_hour(company, rng, special, site, first_day, date(2026, 11, 20))
        facts["visits"].append({"type": review, "status": status, **when})
    for _ in range(place % 3):
        when = _some_hour(company, rng, "dietetics", site, date(2025, 9, 1), date(2026, 9, 30))
        status = rng.choice(("completed", "completed", "no_show", "cancelled_late", "cancelled_by_clinic"))  # fmt: skip
        visit: Facts = {"type": "diet_first", "status": status, **when}
        if status in ("no_show", "cancelled_late"):
            price = words["types"]["diet_first"][3 if site == "NWY" else 4]
            amount = price if status == "no_show" else price / 2
            kind = "no_show" if status == "no_show" else "late_cancel"
            paid = rng.choice(("paid", "paid", "open", "collection", "waived"))
            on = visit["day"] + timedelta(days=1)
            off = [[amount, "hospital", on + timedelta(days=9)]] if paid == "waived" else []
            visit["fees"] = [{"kind": kind, "amount": amount, "charged": on, "status": paid, "waivers": off}]  # fmt: skip
        facts["visits"].append(visit)
    if place % 4 == 0:
        special, kind = WAITS_FOR[site]
        facts["letters"].append({"for": special, "received": "2026-08-24"})
        since = str(date(2026, 8, 25) + timedelta(days=rng.randint(0, 35)))
        facts["waiting"].append({"type": kind, "letter": 2, "since": since})
    return facts


def _some_hour(company: Company, rng: random.Random, special: str, site: str, first: date, last: date) -> Facts:  # fmt: skip
    """Who, day and hour of a visit in a slot that nobody has taken, where no case says what is free."""
    while True:
        who = rng.choice(company.clinicians(special, site))
        day, at = first + timedelta(days=rng.randint(0, (last - first).days)), rng.choice(HOURS)
        if day.weekday() > 4 or (who, day) in company.told:
            continue
        if company.slot(who, day, at, 40) not in company.taken:
            return {"who": who, "day": day, "at": at}


def desk_history(company: Company) -> None:
    """Earlier decisions with their waivers, and escalated cases, of fees that no task is about."""
    visits = {row[0]: row for row in company.rows["appointments"]}
    late = [row for row in company.rows["visit_fees"] if row[6] == "collection"]
    for index, (number, visit, _, _, amount, on, _) in enumerate(late):
        patient, at = visits[visit][1], f"{on + timedelta(days=20)}T13:40:00Z"
        note = "Says that the visit was never booked."
        company.numbered("escalated_cases", "EC", 401, patient, "billing", number, note, at)
        if index % 2 == 0:
            company.numbered("lead_decisions", "LD", 71, "waiver", number, amount, "waiting", at)
    for row in company.rows["patients"][::9]:
        at = "2026-09-21T10:00:00Z"
        company.numbered("escalated_cases", "EC", 401, row[0], "records", row[0], "Name after marriage.", at)  # fmt: skip


def calendar(company: Company) -> None:
    """Free slots after the days of the waiting list, where no case says what is free."""
    for who, (special, _, _) in company.words["clinicians"].items():
        minutes = max(kind[2] for kind in company.words["types"].values() if kind[0] == special)
        for number in range((LAST_DAY - FIRST_FREE).days + 1):
            day = FIRST_FREE + timedelta(days=number)
            rng = random.Random(f"{who} {day}")
            if day.weekday() > 4 or (who, day) in company.told:
                continue
            for at in HOURS:
                if rng.random() < 0.12:
                    company.slot(who, day, at, minutes)


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
    head = "-- Written by families.py; the appointments desk on 5 October 2026.\n\n"
    return head + "\n".join(statements)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float | Decimal):
        return str(value).lower()
    text = str(value).replace("'", "''")
    return f"'{text}'"
