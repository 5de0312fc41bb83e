"""The rows of Ankerhof: merchants with users, articles, lots, bins, inbounds, outbounds, returns and the desk's side tables.

A merchant is made from facts: those of a task's case, or drawn ones for merchants that no task is about. Ids and bins
follow from the merchant's place, so that new cases move no others.
"""

import random
import re
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

Facts = dict[str, Any]
TABLES = (
    "merchants", "desk_callers", "skus", "stock_lots", "bins", "bin_stock", "inbounds", "inbound_lines", "outbounds", "outbound_lines",
    "return_parcels", "return_items", "controller_approvals", "quarantine_cases", "count_sheets", "stock_adjustments", "stock_journal",
    "merchant_notices", "merchant_postings", "warehouse_escalations",
)  # fmt: skip
"""In the order in which foreign keys need them."""
TODAY = date(2026, 11, 12)
CURRENCY = {"CH": "CHF", "GB": "GBP", "US": "USD"}
"""EUR elsewhere."""
SHARED = {"q": ("Q-01-1", "quarantine"), "r": ("R-01-1", "outlet")}
OPEN = ("new", "held", "picking", "packed")
"""States of outbounds that hold pieces."""
GRANTED_ABOVE = 100
"""A correction worth more has an approval."""


@dataclass
class Company:
    """Rows by table."""

    words: dict[str, Any]
    rows: dict[str, list[tuple[Any, ...]]] = field(
        default_factory=lambda: {table: [] for table in TABLES}
    )
    stock: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """On hand and held, by bin and lot."""

    def add(self, table: str, *row: Any) -> None:
        self.rows[table].append(row)

    def numbered(self, table: str, letters: str, first: int, *row: Any) -> str:
        """Add a row of a side table under the next number, counted from `first`."""
        new = f"{letters}-{first + len(self.rows[table])}"
        self.add(table, new, *row)
        return new

    def next_id(self, table: str, letters: str) -> str:
        return f"{letters}-{max(int(row[0][3:]) for row in self.rows[table]) + 1}"


def found(words: dict[str, Any]) -> Company:
    """The shared bins, and floor staff."""
    company = Company(words)
    for name, zone in SHARED.values():
        company.add("bins", name, zone, 50_000, "")
    for index, (name, role) in enumerate(words["floor"]):
        email = f"{_plain(name)}@ankerhof.example"
        company.add("desk_callers", f"DC-{901 + index}", None, name, email, role, True)
    return company


def settle(company: Company, facts: Facts, place: int) -> dict[str, str]:
    """Add a merchant; its ids by the names that cases use for them."""
    rng = random.Random(f"merchant {place}")
    country = facts.get("country", "DE")
    ids = {"merchant": f"MC-{200 + place}", "firm": facts["firm"], "person": facts["person"]}
    since = date(2022, 3, 1) + timedelta(days=rng.randint(0, 1400))
    company.add(
        "merchants", ids["merchant"], facts["firm"], country, CURRENCY.get(country, "EUR"), facts.get("cover", "basic"),
        facts.get("status", "active"), facts.get("note", ""), since,
    )  # fmt: skip
    _callers(company, ids, facts, place, rng)
    _bins(company, ids, facts, place, rng)
    sheets: list[tuple[str, Facts]] = []
    for sku in facts["skus"]:
        number = ids[_next(ids, "sku")] = f"SK-{3000 + 5 * place + _count(ids, 'sku')}"
        company.add(
            "skus", number, ids["merchant"], sku["title"], sku.get("kind", "general"), sku.get("storage", "ambient"),
            sku.get("case", 20), Decimal(str(sku.get("value", 4.5))), sku.get("sold_by", "piece"),
        )  # fmt: skip
        for lot in sku.get("lots", []):
            lot_id = ids[_next(ids, "lot")] = f"{number}/{lot['code']}"
            company.add("stock_lots", lot_id, number, lot["code"], _day(lot.get("best")))
            for name, pieces in lot.get("bins", {}).items():
                company.stock[ids[name], lot_id] = [pieces, 0]
            sheets.append((lot_id, lot))
    _outbounds(company, ids, facts, place, rng)
    for lot_id, lot in sheets:
        _lot_papers(company, ids, lot_id, lot)
    _inbounds(company, ids, facts, place, rng)
    for index, back in enumerate(facts.get("returns", [])):
        number = ids[_named("rt", index)] = f"RT-{7000 + 2 * place + index}"
        outbound = ids[_named("ob", back.get("outbound", 0))]
        company.add("return_parcels", number, outbound, back.get("reason", "changed_mind"),
                    _day(back.get("arrived", "2026-11-11")), back.get("slip", ""))  # fmt: skip
        for lot, announced in back["items"]:
            company.add("return_items", number, ids[_named("lot", lot)], announced, 0, 0, 0)
    for kind, record, amount, day in facts.get("postings", []):
        subject = ids[record]
        company.numbered("merchant_postings", "MP", 5001, ids["merchant"], kind, subject, Decimal(str(amount)), None, _day(day))  # fmt: skip
    return ids


def _named(name: str, index: int) -> str:
    return name if index == 0 else f"{name}{index + 1}"


def _count(ids: dict[str, str], name: str) -> int:
    return sum(re.fullmatch(rf"{name}\d*", known) is not None for known in ids)


def _next(ids: dict[str, str], name: str) -> str:
    return _named(name, _count(ids, name))


def _plain(name: str) -> str:
    letters = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "é": "e", "è": "e", "ø": "o", "å": "a", "í": "i", "ç": "c", "ñ": "n", "ó": "o"}  # fmt: skip
    return re.sub(r"[^a-z0-9]+", ".", name.lower().translate(str.maketrans(letters))).strip(".")


def _callers(
    company: Company, ids: dict[str, str], facts: Facts, place: int, rng: random.Random
) -> None:
    """The person of the case, on the floor or at the merchant, the merchant's owner and others; `to` gets the notices."""
    words, site = company.words, f"{_plain(facts['firm']).replace('.', '')}.example"
    people: list[list[Any]] = [list(user) for user in facts.get("users", [])]
    if "floor" in facts:
        ids["caller"], ids["email"] = f"DC-{1005 + 6 * place}", f"{_plain(facts['person'])}@ankerhof.example"  # fmt: skip
        active = facts.get("active", True)
        company.add("desk_callers", ids["caller"], None, facts["person"], ids["email"], facts["floor"], active)  # fmt: skip
    else:
        role, active = facts.get("role", "owner"), facts.get("active", True)
        people.insert(0, [facts["person"], role, active])
    if not any(user[1] == "owner" for user in people):
        people.append([f"{rng.choice(words['first'])} {rng.choice(words['last'])}", "owner"])
    if "users" not in facts and not any(user[1] == "logistics" for user in people):
        people.append([f"{rng.choice(words['first'])} {rng.choice(words['last'])}", "logistics"])
    for index, (name, role, *rest) in enumerate(people):
        caller, email = f"DC-{1000 + 6 * place + index}", f"{_plain(name)}@{site}"
        ids.setdefault(role, caller)
        ids[_named("user", index)] = caller
        if "caller" not in ids:
            ids["caller"], ids["email"] = caller, email
        if "floor" not in facts and index == 0:
            ids["to"] = caller
        company.add("desk_callers", caller, ids["merchant"], name, email, role, (rest or [True])[0])
    active = {role: caller for caller, role, on in _users(company, ids["merchant"]) if on}
    ids.setdefault("to", active.get("logistics") or active["owner"])


def _users(company: Company, merchant: str) -> list[tuple[str, str, bool]]:
    rows = reversed([row for row in company.rows["desk_callers"] if row[1] == merchant])
    return [(row[0], row[4], row[5]) for row in rows]


def _bins(
    company: Company, ids: dict[str, str], facts: Facts, place: int, rng: random.Random
) -> None:
    """Four bins in the racks of the place, b1 to b4, two cold ones for who needs them, and the shared ones by name."""
    ids |= {name: shared for name, (shared, _) in SHARED.items()}
    rack = f"{'ABCDEFGH'[place % 8]}-{place // 8 + 11}"
    names = {f"b{level}": (f"{rack}-{level}", "ambient") for level in range(1, 5)}
    if any(sku.get("storage") == "cold" for sku in facts["skus"]):
        names |= {f"k{level}": (f"K-{100 + place}-{level}", "cold") for level in (1, 2)}
    for name, (bin_id, zone) in names.items():
        ids[name] = bin_id
        told = facts.get("rack", {}).get(name, {})
        remark = told.get("remark", rng.choice(company.words["remarks"]))
        company.add("bins", bin_id, zone, told.get("capacity", 2400), remark)


def _outbounds(
    company: Company, ids: dict[str, str], facts: Facts, place: int, rng: random.Random
) -> None:
    """Those of the facts, and two of the summer that no task is about."""
    words, country = company.words, facts.get("country", "DE")
    told = list(facts.get("outbounds", []))
    old = []
    known = facts["skus"][0].get("lots") and facts["skus"][0]["lots"][0].get("bins")
    for month in (7, 8) if known else ():
        day = date(2026, month, rng.randint(2, 27))
        lines = [[0, min(known), rng.randint(1, 12)]]
        state = "sent_back" if rng.random() < 0.1 else "delivered"
        old.append({"status": "shipped", "ordered": day, "shipped": day + timedelta(days=2), "parcel": state, "lines": lines})  # fmt: skip
    for index, out in enumerate([*told, *old]):
        number = f"OB-{10_000 + 8 * place + index}"
        ids[_named("ob" if index < len(told) else "old_ob", index)] = number
        there = out.get("country", country)
        postcode, town = rng.choice(words["towns"].get(there, words["towns"]["DE"]))
        street, postcode, town = out.get("to", [rng.choice(words["streets"]), postcode, town])
        status, shipped = out.get("status", "new"), _day(out.get("shipped"))
        ordered = _day(out.get("ordered", (shipped or TODAY) - timedelta(days=1)))
        company.add(
            "outbounds", number, ids["merchant"], out.get("customer", rng.choice(words["customers"])), street, postcode, town, there,
            out.get("service", "standard"), status, ordered, shipped, out.get("parcel", "delivered" if shipped else None),
        )  # fmt: skip
        for lot, name, pieces in out["lines"]:
            lot_id, bin_id = ids[_named("lot", lot)], ids[name]
            company.add("outbound_lines", number, lot_id, bin_id, pieces)
            if status in OPEN:
                company.stock[bin_id, lot_id][1] += pieces


def _lot_papers(company: Company, ids: dict[str, str], lot_id: str, lot: Facts) -> None:
    """Quarantine, count sheets and adjustments of a lot."""
    if "quarantine" in lot:
        case = lot["quarantine"]
        number = company.numbered(
            "quarantine_cases", "QC", 801, lot_id, case["reason"], case.get("inspection"), _day(case.get("opened", "2026-11-03")),
            _day(case.get("ended")), case.get("report", "Put aside by the shift."), None,
        )  # fmt: skip
        ids[_next(ids, "qc")] = number
        _journal(company, lot_id, "quarantined", _on_hand(company, lot_id), case.get("opened", "2026-11-03"))  # fmt: skip
    for name, ordered, *counted in lot.get("counts", []):
        figure, by, on = counted or (None, None, None)
        ids[_next(ids, "ct")] = company.numbered(
            "count_sheets", "CT", 2001, ids[name], lot_id, _day(ordered), figure, by, _day(on)
        )
    for name, delta, reason, day in lot.get("adjusted", []):
        ids[_next(ids, "ad")] = company.numbered(
            "stock_adjustments", "AD", 601, ids[name], lot_id, delta, reason, _day(day), None
        )
        _journal(company, lot_id, "adjusted", delta, day)


def _on_hand(company: Company, lot_id: str) -> int:
    return sum(count[0] for (_, lot), count in company.stock.items() if lot == lot_id)


def _journal(company: Company, lot_id: str, event: str, pieces: int, day: Any) -> None:
    note = {"received": "As counted at the dock.", "quarantined": "Label on the rack."}
    text = note.get(event, "Booked by the shift.")
    company.numbered("stock_journal", "SJ", 30_001, lot_id, event, pieces, text, f"{day}T13:40:00Z")


def _inbounds(
    company: Company, ids: dict[str, str], facts: Facts, place: int, rng: random.Random
) -> None:
    """Those of the facts, and an earlier one for the lots that they do not tell of."""
    told = facts.get("inbounds", [])
    for index, inbound in enumerate(told):
        number = ids[_named("ib", index)] = f"IB-{4000 + 4 * place + index}"
        open_lines = any(len(line) == 2 for line in inbound["lines"])
        arrived = _day(inbound.get("arrived", TODAY))
        company.add("inbounds", number, ids["merchant"], inbound.get("supplier", rng.choice(company.words["suppliers"])),
                    arrived, "arrived" if open_lines else "closed", inbound.get("remark", ""))  # fmt: skip
        for which, announced, *booked in inbound["lines"]:
            if not booked:
                company.add("inbound_lines", number, ids[_named("sku", which)], announced, None, None, None)  # fmt: skip
                continue
            lot_id = ids[_named("lot", which)]
            company.add("inbound_lines", number, lot_id.partition("/")[0], announced, *booked, lot_id)  # fmt: skip
            _received(company, ids, lot_id, sum(booked), number, arrived)
    booked = {row[5] for row in company.rows["inbound_lines"]}
    rest = [ids[name] for name in ids if re.fullmatch(r"lot\d*", name) and ids[name] not in booked]
    for number in range(4003 + 4 * place, 4000 + 4 * place, -1):
        if not rest:
            break
        arrived = date(2026, 6, 1) + timedelta(days=rng.randint(0, 28))
        supplier = rng.choice(company.words["suppliers"])
        company.add("inbounds", f"IB-{number}", ids["merchant"], supplier, arrived, "closed", "")
        # One line for each article, so that a second lot of it came with another inbound.
        for sku_id, lot_id in sorted({lot.partition("/")[0]: lot for lot in rest}.items()):
            good = _on_hand(company, lot_id) + rng.randint(24, 90)
            company.add("inbound_lines", f"IB-{number}", sku_id, good, good, 0, lot_id)
            _received(company, ids, lot_id, good, f"IB-{number}", arrived)
            rest.remove(lot_id)


def _received(
    company: Company, ids: dict[str, str], lot_id: str, pieces: int, inbound: str, day: date
) -> None:
    _journal(company, lot_id, "received", pieces, day)
    known = any(row[3] == inbound for row in company.rows["merchant_notices"])
    if not known:
        to = ids.get("logistics", ids["owner"])
        company.numbered("merchant_notices", "MN", 9001, to, "received", inbound, f"{day}T13:50:00Z")  # fmt: skip


def _day(value: Any) -> Any:
    return date.fromisoformat(value) if isinstance(value, str) else value


def neighbour(words: dict[str, Any], place: int) -> Facts:
    """Facts of a merchant that no task is about."""
    rng = random.Random(f"neighbour {place}")
    firm = f"{words['firm_first'][place % 17]} {words['firm_last'][place * 5 % 8]}"
    country = rng.choice(("DE", "DE", "DE", "AT", "AT", "CH", "GB", "US"))
    facts: Facts = {"person": f"{words['first'][place * 7 % 26]} {words['last'][place * 3 % 23]}", "firm": firm, "country": country,
                    "cover": rng.choice(("basic", "basic", "full")), "skus": [], "outbounds": []}  # fmt: skip
    for index, article in enumerate(rng.sample(words["articles"], 4)):
        title, kind, storage, case, value, sold_by = article
        shelf = f"b{index + 1}" if storage == "ambient" else f"k{index % 2 + 1}"
        best = date(2027, rng.randint(3, 12), rng.randint(1, 28)) if kind in ("food", "cosmetic") else None  # fmt: skip
        lot: Facts = {"code": f"L26{rng.randint(10, 99)}{'ABCD'[index]}", "best": best, "bins": {shelf: case * rng.randint(4, 30)}}  # fmt: skip
        if rng.random() < 0.3:
            day = date(2026, 10, rng.randint(1, 25))
            count = lot["bins"][shelf] - rng.choice((0, 0, 1, 2))
            lot["counts"] = [[shelf, day, count, rng.choice(words["counters"]), day + timedelta(days=1)]]  # fmt: skip
        if rng.random() < 0.12:
            lot["quarantine"] = {"reason": rng.choice(("damage", "mix_up")), "opened": date(2026, 11, rng.randint(2, 10))}  # fmt: skip
        if rng.random() < 0.2:
            lot["adjusted"] = [[shelf, -rng.randint(1, 6), rng.choice(("count", "house_damage")), date(2026, 9, rng.randint(1, 28))]]  # fmt: skip
        facts["skus"].append({"title": title, "kind": kind, "storage": storage, "case": case, "value": value, "sold_by": sold_by, "lots": [lot]})  # fmt: skip
        status = rng.choice(("new", "new", "picking", "packed", "shipped"))
        shipped = date(2026, 11, rng.randint(2, 10)) if status == "shipped" else None
        facts["outbounds"].append({"status": status, "shipped": shipped, "lines": [[index, shelf, rng.randint(1, 8)]]})  # fmt: skip
    return facts


def desk_history(company: Company) -> None:
    """What the desk posted, asked and escalated before, for merchants that no task is about."""
    owners = {row[1]: row[0] for row in company.rows["desk_callers"] if row[4] == "owner"}
    told = {row[3] for row in company.rows["merchant_postings"]}
    for index, row in enumerate(company.rows["outbounds"]):
        if row[8] == "shipped" and row[9] < date(2026, 9, 1) and index % 5 == 0 and row[0] not in told:  # fmt: skip
            company.numbered("merchant_postings", "MP", 5001, row[1], "rush", row[0], Decimal("6.00"), None, row[9])  # fmt: skip
    for index, row in enumerate(company.rows["stock_adjustments"]):
        if index % 3 == 0:
            at = f"{row[5]}T10:10:00Z"
            amount = Decimal(120 + 15 * index)
            company.numbered("controller_approvals", "CA", 401, "adjustment", row[2], amount, "granted", at)  # fmt: skip
    for index, merchant in enumerate(sorted(owners)[::6]):
        team = ("other", "accounts", "inbound_office")[index % 3]
        company.numbered("warehouse_escalations", "WE", 701, owners[merchant], team, merchant, "Asks for a call back.", "2026-10-06T09:20:00Z")  # fmt: skip


def strangers(company: Company, bins: list[str], lots: list[str]) -> None:
    """Goods of other merchants in bins where nobody expects them."""
    for bin_id, lot_id in zip(bins, lots, strict=False):
        company.stock[bin_id, lot_id] = [35, 0]


def seed_sql(company: Company) -> str:
    """Text of world/seed.sql."""
    for (bin_id, lot_id), counts in company.stock.items():
        company.add("bin_stock", bin_id, lot_id, *counts)
    statements = []
    for table in TABLES:
        rows = company.rows[table]
        if re.match(r"[A-Z]{2}-\d+$", str(rows[0][0])):
            # By the number in the id, as a database in use would list them.
            rows = sorted(rows, key=lambda row: (int(row[0].split("-")[1]), str(row[1])))
        lines = ",\n".join(f"    ({', '.join(map(_literal, row))})" for row in rows)
        statements.append(f"INSERT INTO {table} VALUES\n{lines};\n")
    head = "-- Written by families.py; the stock desk on 12 November 2026.\n\n"
    return head + "\n".join(statements)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float | Decimal):
        return str(value).lower()
    text = str(value).replace("'", "''")
    return f"'{text}'"
