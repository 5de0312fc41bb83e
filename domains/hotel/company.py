"""The group's rows: houses, rooms and nights, guests with their stays and folios, and the side tables.

A party (a guest with stays, vouchers, a group, things left behind) is made from facts: those of a task's case, or drawn
ones for the guests of no task. Ids follow from the party's place, so that new cases move no others.
"""

import random
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

Facts = dict[str, Any]
TODAY = date(2026, 10, 14)
NIGHTS_AHEAD = 45
KINDS = {"standard": 8, "superior": 5, "family": 3, "suite": 2}
"""Rooms of each kind in a house, by rank from 1; the floor is the rank."""
TABLES = (
    "houses", "room_kinds", "rooms", "room_nights", "guests", "firms", "tariffs", "stays", "duty_signoffs", "folio_lines",
    "stay_vouchers", "star_points", "group_blocks", "found_items", "defects", "letters", "logbook", "handovers",
)  # fmt: skip
"""In the order in which foreign keys need them."""
UNIT_POINTS = {"EUR": 10, "GBP": 12, "DKK": 1}
MONEY_BACK = ("allowance", "payment", "voucher")
"""Items with amounts below zero."""


@dataclass
class Company:
    """Rows by table, and who has which room from when to when."""

    words: dict[str, Any]
    rows: dict[str, list[tuple[Any, ...]]] = field(
        default_factory=lambda: {table: [] for table in TABLES}
    )
    let: dict[str, list[tuple[date, date]]] = field(default_factory=dict)
    firms: dict[str, str] = field(default_factory=dict)
    """Ids by name."""

    def add(self, table: str, *row: Any) -> None:
        self.rows[table].append(row)

    def next_id(self, table: str, prefix: str, first: int = 1) -> str:
        numbers = [int(row[0][3:]) for row in self.rows[table]]
        return f"{prefix}-{max(numbers, default=first - 1) + 1}"

    def new(self, table: str, prefix: str, first: int, *row: Any) -> str:
        """Add a row with the next id."""
        key = f"{prefix}-{first + len(self.rows[table])}"
        self.add(table, key, *row)
        return key

    def rooms(self, house: str, kind: str) -> list[str]:
        return [row[0] for row in self.rows["rooms"] if row[1:4] == (house, kind, False)]

    def let_room(
        self, house: str, kind: str, arrive: date, depart: date, *, last: bool = False
    ) -> str:
        """The first (or last) room of the kind that nobody has then; LookupError when there is none."""
        rooms = self.rooms(house, kind)
        for room in reversed(rooms) if last else rooms:
            spans = self.let.setdefault(room, [])
            if all(depart <= start or end <= arrive for start, end in spans):
                spans.append((arrive, depart))
                return room
        raise LookupError(f"no {kind} room in {house} from {arrive} to {depart}")

    def free_tonight(self, house: str, kind: str) -> list[str]:
        taken = {row[11] for row in self.rows["stays"] if row[10] == "in_house"}
        return [room for room in self.rooms(house, kind) if room not in taken]

    def currency(self, house: str) -> str:
        return self.words["houses"][house][2]


def found(words: dict[str, Any]) -> Company:
    """Houses with rooms and nights for sale, firms and tariffs."""
    company = Company(words)
    for house, (name, city, currency, racks) in words["houses"].items():
        company.add("houses", house, name, city, currency)
        for rank, (kind, count) in enumerate(KINDS.items(), start=1):
            company.add("room_kinds", house, kind, rank, racks[rank - 1])
            for number in range(1, count + 1):
                room = f"{house}-{rank}{number:02}"
                company.add("rooms", room, house, kind, room in words["closed"])
            sold_out = words["sold_out"][house].get(kind, [])
            for offset in range(NIGHTS_AHEAD):
                night = TODAY + timedelta(days=offset)
                left = 2 + (offset * 7 + rank * 3 + len(name)) % 4
                company.add(
                    "room_nights", house, kind, night, 0 if str(night) in sold_out else left
                )
    for index, (name, covers, limit, suspended) in enumerate(words["firms"]):
        company.firms[name] = f"CO-{11 + index}"
        company.add("firms", company.firms[name], name, list(covers), limit, suspended)
    for tariff, (name, prepaid) in words["tariffs"].items():
        company.add("tariffs", tariff, name, prepaid)
    return company


def settle(company: Company, facts: Facts, place: int, *, last: bool = False) -> dict[str, str]:
    """Add a party; its ids by the names that cases use for them."""
    rng = random.Random(f"party {place}")
    guest = f"GU-{1100 + place}"
    plain = facts["person"].lower()
    plain = plain.translate(str.maketrans("äöüéèêçãõåæøáíóúô' ", "aoueeecaoaaoaiouo-."))
    email = f"{plain}@example.{rng.choice(('com', 'org', 'net'))}"
    phone = f"+{rng.choice((44, 45, 39, 351))} 555 01{rng.randint(10, 99)} {rng.randint(10, 99)}"
    country = facts.get("country", rng.choice(company.words["countries"]))
    since = f"{rng.randint(2012, 2025)}-0{rng.randint(1, 9)}-{rng.randint(10, 28)}"
    company.add(
        "guests", guest, facts["person"], email, phone, country, facts.get("tier", "none"), since
    )
    ids = {"guest": guest, "email": email, "person": facts["person"]}
    for index, stay in enumerate(facts.get("stays", [])):
        _stay(company, ids, stay, place, index, rng, last=last)
    for index, (amount, currency, until, *used) in enumerate(facts.get("vouchers", [])):
        voucher = ids[numbered("voucher", index)] = f"VO-{300 + 3 * place + index}"
        company.add("stay_vouchers", voucher, guest, amount, currency, until, *(used or [None]))
    if "block" in facts:
        _block(company, ids, facts["block"], place)
    return ids


def numbered(name: str, index: int) -> str:
    return name if index == 0 else f"{name}{index + 1}"


def _block(company: Company, ids: dict[str, str], facts: Facts, place: int) -> None:
    block = ids["block"] = f"GR-{60 + place}"
    arrive = day(facts["arrive"])
    company.add(
        "group_blocks", block, ids["guest"], facts["title"], facts["house"], facts.get("kind", "standard"),
        arrive, arrive + timedelta(days=facts["nights"]), facts["rooms"], facts.get("held", facts["rooms"]),
        facts["nightly"], day(facts["release"]),
    )  # fmt: skip
    _log(company, block, facts.get("log", []))


def _stay(
    company: Company, ids: dict[str, str], facts: Facts, place: int, index: int, rng: random.Random, *, last: bool,
) -> None:  # fmt: skip
    stay = ids[numbered("stay", index)] = f"KQ-{4000 + 4 * place + index}"
    house, kind = facts["house"], facts.get("kind", "standard")
    arrive = day(facts["arrive"])
    depart = arrive + timedelta(days=facts["nights"])
    past = "departed" if depart < TODAY else "in_house"
    status = facts.get("status", "booked" if arrive > TODAY else past)
    firm = company.firms[facts["firm"]] if "firm" in facts else None
    source = "firm" if firm else facts.get("source", "direct")
    rack = company.words["houses"][house][3][list(KINDS).index(kind)]
    facts = {"nightly": rack, **facts}
    room = None
    if status in ("in_house", "departed"):
        room = ids[numbered("room", index)] = company.let_room(
            house, kind, arrive, depart, last=last
        )
    company.add(
        "stays", stay, ids["guest"], house, kind, facts.get("tariff", "flex"), source, firm, arrive, depart,
        facts["nightly"], status, room, facts.get("until_hour", 11),
        facts.get("remark", rng.choice(company.words["remarks"])),
    )  # fmt: skip
    _folio(company, stay, facts, status, arrive, depart)
    _log(company, stay, facts.get("log", []))
    if "points" in facts:
        at = f"{depart + timedelta(days=1)}T03:00:00Z"
        company.new("star_points", "SP", 2001, ids["guest"], stay, facts["points"], at)
    for problem, opened, fixed, text in facts.get("defects", []):
        urgent = problem in ("water", "heating", "power", "lock")
        company.new("defects", "DF", 701, room, problem, urgent, text, day(opened), day(fixed))
    for number, (text, found_on, valuable) in enumerate(facts.get("found", [])):
        item = ids[numbered("item", number)] = f"FI-{500 + 3 * place + number}"
        company.add("found_items", item, room, day(found_on), text, valuable, "held", None)


def _folio(
    company: Company, stay: str, facts: Facts, status: str, arrive: date, depart: date
) -> None:
    nights = [arrive + timedelta(days=offset) for offset in range((depart - arrive).days)]
    prepaid = company.words["tariffs"][facts.get("tariff", "flex")][1]
    whole = round(len(nights) * facts["nightly"], 2)
    lines: list[tuple[str, float, date | None, str]] = []
    if prepaid and status != "cancelled":
        before = min(arrive, TODAY) - timedelta(days=20)
        lines.append(("payment", -whole, None, f"{before}T12:00:00Z"))
    if status == "no_show":
        lines.append(
            ("no_show", facts["nightly"], arrive, f"{arrive + timedelta(days=1)}T02:00:00Z")
        )
        if not prepaid:
            at = f"{arrive + timedelta(days=1)}T02:10:00Z"
            lines.append(("payment", -facts["nightly"], None, at))
    if status in ("in_house", "departed"):
        rates = facts.get("rates", {})
        for night in nights:
            if night < TODAY:
                rate = rates.get(str(night), facts["nightly"])
                lines.append(("room", rate, night, f"{night}T22:30:00Z"))
        for item, amount, on in facts.get("extras", []):
            lines.append((item, amount, day(on), f"{on}T21:00:00Z"))
    if status == "departed":
        owed = round(sum(line[1] for line in lines), 2)
        if owed > 0:
            lines.append(("payment", -owed, None, f"{depart}T09:40:00Z"))
    for item, amount, night, at in sorted(lines, key=lambda line: line[3]):
        _line(company, stay, item, amount, night, at)
    for amount, reason, on in facts.get("allowances", []):
        _line(company, stay, "allowance", -amount, None, f"{on}T10:00:00Z", reason)
        if status != "in_house":
            _line(company, stay, "payback", amount, None, f"{on}T10:01:00Z")
        _log(company, stay, [["allowance", f"{reason} {amount}", f"{on} 10:02"]])


def _line(
    company: Company, stay: str, item: str, amount: float, night: date | None, at: str,
    reason: str | None = None,
) -> None:  # fmt: skip
    company.new("folio_lines", "FL", 9001, stay, item, round(amount, 2), night, "guest", reason, None, at)  # fmt: skip


def _log(company: Company, record: str, entries: list[list[str]]) -> None:
    for entry, detail, at in entries:
        stamp = f"{at.replace(' ', 'T')}:00Z"
        company.new("logbook", "LG", 3001, record, entry, detail, stamp)


def day(value: Any) -> Any:
    return date.fromisoformat(value) if isinstance(value, str) else value


def neighbour(words: dict[str, Any], place: int) -> Facts:
    """Facts of a guest that no task is about: some past stays, perhaps one to come."""
    rng = random.Random(f"neighbour {place}")
    stays = [_past_stay(words, rng) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.4:
        arrive = TODAY + timedelta(days=rng.randint(2, 40))
        stays.append({**_somewhere(words, rng), "arrive": arrive, "nights": rng.randint(1, 5)})
    tier = rng.choice(("none", "none", "silver", "gold", "platinum"))
    facts: Facts = {"person": _name(words, place), "tier": tier, "stays": stays}
    if rng.random() < 0.15:
        until = TODAY + timedelta(days=rng.randint(-200, 200))
        facts["vouchers"] = [(rng.choice((25, 40, 60)), "EUR", until)]
    return facts


def tonight(words: dict[str, Any], place: int, house: str, kind: str) -> Facts:
    """Facts of a guest who has a room of this kind tonight."""
    rng = random.Random(f"tonight {place}")
    ago, nights = rng.randint(0, 3), rng.randint(4, 7)
    arrive = TODAY - timedelta(days=ago)
    stay = {"house": house, "kind": kind, "arrive": arrive, "nights": nights, "status": "in_house"}
    stay["extras"] = [("breakfast", 14, str(arrive))] if rng.random() < 0.4 and ago else []
    return {"person": _name(words, place), "stays": [stay]}


def _name(words: dict[str, Any], place: int) -> str:
    first, last = words["first"], words["last"]
    return f"{first[place * 5 % len(first)]} {last[place * 7 % len(last)]}"


def _somewhere(words: dict[str, Any], rng: random.Random) -> Facts:
    return {
        "house": rng.choice(list(words["houses"])),
        "kind": rng.choice(("standard", "standard", "superior", "family")),
        "tariff": rng.choice(("flex", "flex", "saver", "fixed")),
        "source": rng.choice(("direct", "direct", "agency")),
    }


def _past_stay(words: dict[str, Any], rng: random.Random) -> Facts:
    arrive = date(2026, 4, 1) + timedelta(days=rng.randint(0, 185))
    nights = rng.randint(1, 4)
    factor = 10 if (place := _somewhere(words, rng))["house"] == "NYH" else 1
    extras = [
        (item, round(amount * factor, 2), str(arrive + timedelta(days=rng.randint(0, nights - 1))))
        for item, amount in (("breakfast", 14.0), ("parking", 18.0), ("minibar", 7.5), ("laundry", 22.0))
        if rng.random() < 0.3
    ]  # fmt: skip
    facts = {**place, "arrive": arrive, "nights": nights, "extras": extras}
    if rng.random() < 0.12:
        facts["found"] = [
            (rng.choice(words["things"]), str(arrive + timedelta(days=nights)), False)
        ]
    if rng.random() < 0.12:
        problem = rng.choice(list(words["defect_texts"]))
        text, opened = words["defect_texts"][problem], arrive - timedelta(days=1)
        facts["defects"] = [(problem, opened, arrive + timedelta(days=rng.randint(0, 1)), text)]
    if rng.random() < 0.05:
        facts |= {"status": "no_show", "extras": [], "found": [], "defects": []}
    return facts


def history(company: Company, first_stay: int) -> None:
    """Points, letters, sign-offs and handovers of the stays from this index on."""
    tiers = {row[0]: row[5] for row in company.rows["guests"]}
    for index, row in enumerate(company.rows["stays"][first_stay:]):
        stay, guest, house, source, depart, nightly, status = (
            row[i] for i in (0, 1, 2, 5, 8, 9, 10)
        )
        if status != "departed":
            continue
        at = f"{depart + timedelta(days=1)}T03:00:00Z"
        if source == "direct" and tiers[guest] != "none":
            points = int((depart - row[7]).days * nightly * UNIT_POINTS[company.currency(house)])
            company.new("star_points", "SP", 2001, guest, stay, points, at)
            company.new("letters", "LT", 5001, guest, "points_credited", stay, at)
        if index % 9 == 0:
            _line(company, stay, "allowance", -nightly / 5, None, at, "defect")
            _line(company, stay, "payback", nightly / 5, None, at)
            _log(company, stay, [["allowance", "Noise.", at[:16].replace("T", " ")]])
            company.new("letters", "LT", 5001, guest, "folio_corrected", stay, at)
        elif index % 13 == 5:
            company.new("handovers", "HO", 41, guest, "other", stay, "Please call about an invoice copy.", at)  # fmt: skip
        elif index % 17 == 3:
            company.new("duty_signoffs", "DS", 81, "allowance", stay, round(nightly * 2, 2), "granted", at)  # fmt: skip


def seed_sql(company: Company) -> str:
    """Text of world/seed.sql."""
    statements = []
    for table in TABLES:
        rows = company.rows[table]
        if "_" not in str(rows[0][0]) and "-" in str(rows[0][0]) and table != "rooms":
            # By the number in the id, as a database in use would list them.
            rows = sorted(rows, key=lambda row: int(str(row[0]).split("-")[1]))
        lines = ",\n".join(f"    ({', '.join(map(_literal, row))})" for row in rows)
        statements.append(f"INSERT INTO {table} VALUES\n{lines};\n")
    head = "-- Written by families.py; Kestrel & Quay Hotels on 14 October 2026.\n\n"
    return head + "\n".join(statements)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, list):
        return "ARRAY[" + ", ".join(map(_literal, value)) + "]"
    text = str(value).replace("'", "''")
    return f"'{text}'"
