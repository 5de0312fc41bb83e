"""The stock desk's tools.

They refuse what the database must never hold: unknown ids, more pieces moved or destroyed than are free, bins beyond
their capacity, an approval used for something else, a receipt booked twice. What the house rules ask of the agent (who
may ask, which bin fits, two counts, limits, charges, journal and notices) they leave to the agent.
"""

from datetime import date
from decimal import Decimal
from typing import Any, Literal, LiteralString

from env_server.toolkit import READ, WRITE, Call, Refused, tool

Matter = Literal["adjustment", "release", "destruction", "loss"]
Cause = Literal["count", "house_damage", "house_loss"]
Block = Literal["damage", "temperature", "mix_up", "expiry", "recall", "customs"]
Posting = Literal["cancellation", "rush", "destruction", "return_handling", "loss"]
Event = Literal["received", "moved", "adjusted", "quarantined", "released", "destroyed", "returned"]
Template = Literal[
    "received", "received_damaged", "recount_ordered", "adjusted", "quarantined", "released", "destroyed",
    "outbound_held", "outbound_resumed", "outbound_cancelled", "outbound_changed", "returned", "loss_paid",
]  # fmt: skip
Team = Literal["security", "merchant_owner", "shift_office", "accounts", "inbound_office", "returns_audit", "quality", "carrier_claims", "other"]  # fmt: skip
GRANTED_UP_TO = {"adjustment": 1000, "release": 2500, "destruction": 1500, "loss": 1200}
"""The controller answers at once up to here; above, later."""
TABLES: dict[str, tuple[LiteralString, LiteralString]] = {
    "MC": ("merchants", "merchant_id"), "DC": ("desk_callers", "caller_id"), "SK": ("stock_lots", "lot_id"),
    "IB": ("inbounds", "inbound_id"), "OB": ("outbounds", "outbound_id"), "RT": ("return_parcels", "return_id"),
    "QC": ("quarantine_cases", "quarantine_id"), "CT": ("count_sheets", "sheet_id"),
    "CA": ("controller_approvals", "approval_id"), "AD": ("stock_adjustments", "adjustment_id"),
    "SJ": ("stock_journal", "entry_id"), "MN": ("merchant_notices", "notice_id"),
    "MP": ("merchant_postings", "posting_id"), "WE": ("warehouse_escalations", "escalation_id"),
}  # fmt: skip
"""By the letters of an id."""
RECORDS = ("MC", "SK", "IB", "OB", "RT", "QC", "AD")
"""What notices, approvals, charges and escalations may be about."""
PARTS: dict[str, dict[str, LiteralString]] = {
    "MC": {
        "users": "caller_id, name, role, active FROM desk_callers",
        "lots": "lot_id, title FROM skus JOIN stock_lots USING (sku_id)",
        "inbounds": "inbound_id, supplier, arrived_on, status FROM inbounds",
        "outbounds": "outbound_id, customer, status, ordered_on FROM outbounds",
        "postings": "posting_id, kind, record, amount, posted_on FROM merchant_postings",
    },
    "SK": {
        "bins": "bin_id, on_hand, held FROM bin_stock",
        "outbounds": "outbound_id, status, shipped_on, bin_id, pieces FROM outbound_lines JOIN outbounds USING (outbound_id)",
        "quarantine": "quarantine_id, reason, inspection, opened_on, ended_on, report FROM quarantine_cases",
        "count_sheets": "sheet_id, bin_id, ordered_on, counted, counted_by, counted_on FROM count_sheets",
        "adjustments": "adjustment_id, bin_id, delta, reason, made_on FROM stock_adjustments",
        "journal": "entry_id, event, pieces, note, at FROM stock_journal",
    },
    "IB": {"lines": "sku_id, title, kind, storage, case_size, unit_value, announced, good, damaged, lot_id"
           " FROM inbound_lines JOIN skus USING (sku_id)"},
    "OB": {
        "lines": "lot_id, title, kind, case_size, unit_value, sold_by, bin_id, pieces, on_hand - held AS free_in_bin"
        " FROM outbound_lines JOIN bin_stock USING (bin_id, lot_id) JOIN stock_lots USING (lot_id) JOIN skus USING (sku_id)",
        "returns": "return_id, reason, arrived_on FROM return_parcels",
    },
    "RT": {"items": "lot_id, title, kind, announced, grade_a, grade_b, grade_c FROM return_items"
           " JOIN stock_lots USING (lot_id) JOIN skus USING (sku_id)"},
}  # fmt: skip
"""What is shown with a record, by name."""


@tool(READ)
async def find_caller(call: Call, email: str) -> dict:
    """Find who is calling by email address: name, role, whether active; and the merchant with its status, or none for floor staff."""
    caller = await _row(call, "desk_callers", "email", email.strip().lower())
    query = "SELECT * FROM merchants WHERE merchant_id = %s"
    return {**caller, "merchant": await _all(call, query, caller["merchant_id"])}


@tool(READ)
async def show_merchant(call: Call, merchant_id: str) -> dict:
    """Show a merchant: cover, status, users, articles with their lots, inbounds, outbounds and postings."""
    return await _show(call, merchant_id)


@tool(READ)
async def show_lot(call: Call, lot_id: str) -> dict:
    """Show a lot: its article, pieces by bin (on hand, and held for outbounds), outbounds with it, quarantine, count sheets, adjustments, journal."""
    sku = await _row(call, "skus", "sku_id", lot_id.partition("/")[0])
    return {**sku, **await _show(call, lot_id)}


@tool(READ)
async def show_bin(call: Call, bin_id: str) -> dict:
    """Show a bin: zone, capacity, remark, and the lots in it with article and merchant."""
    query = "SELECT lot_id, title, merchant_id, on_hand, held FROM bin_stock JOIN stock_lots USING (lot_id)"
    query += " JOIN skus USING (sku_id) WHERE bin_id = %s ORDER BY lot_id"
    return {**await _row(call, "bins", "bin_id", bin_id), "lots": await _all(call, query, bin_id)}


@tool(READ)
async def show_inbound(call: Call, inbound_id: str) -> dict:
    """Show an inbound: merchant, supplier, day of arrival, and its lines with article, pieces announced and pieces booked."""
    return await _show(call, inbound_id)


@tool(READ)
async def show_outbound(call: Call, outbound_id: str) -> dict:
    """Show an outbound: customer, address, service, status, parcel, its lines with article, lot, bin and pieces, and its returns."""
    return await _show(call, outbound_id)


@tool(READ)
async def show_return(call: Call, return_id: str) -> dict:
    """Show a return: the outbound it belongs to with the day of shipping, reason, arrival, slip, and articles announced and put away by grade."""
    found = await _show(call, return_id)
    outbound = await _row(call, "outbounds", "outbound_id", found["outbound_id"])
    return {**found, "merchant_id": outbound["merchant_id"], "shipped_on": outbound["shipped_on"]}


@tool(WRITE)
async def book_receipt(call: Call, inbound_id: str, sku_id: str, lot_code: str, good: int, damaged: int, bin_id: str, best_before: date | None = None) -> dict:  # fmt: skip
    """Book one line of an inbound as received: good pieces into a bin, damaged ones into Q-01-1, under the batch (`lot_code`) and best-before day
    (YYYY-MM-DD) on the label. The inbound is closed with its last line."""
    query = "SELECT good FROM inbound_lines WHERE inbound_id = %s AND sku_id = %s"
    lines = await _all(call, query, inbound_id, sku_id)
    if not lines or lines[0]["good"] is not None:
        raise Refused(f"{sku_id} is not announced in {inbound_id}, or booked already.")
    lot_id = f"{sku_id}/{lot_code}"
    known = await _all(call, "SELECT best_before FROM stock_lots WHERE lot_id = %s", lot_id)
    if known and known[0]["best_before"] != best_before:
        raise Refused(f"{lot_id} is known with best-before {known[0]['best_before']}.")
    if not known:
        query = "INSERT INTO stock_lots VALUES (%s, %s, %s, %s)"
        await call.db.execute(query, (lot_id, sku_id, lot_code, best_before))
    await _put(call, bin_id, lot_id, good)
    await _put(call, "Q-01-1", lot_id, damaged)
    query = "UPDATE inbound_lines SET good = %s, damaged = %s, lot_id = %s WHERE inbound_id = %s AND sku_id = %s"
    await call.db.execute(query, (good, damaged, lot_id, inbound_id, sku_id))
    query = "SELECT 1 FROM inbound_lines WHERE inbound_id = %s AND good IS NULL"
    status = "arrived" if await _all(call, query, inbound_id) else "closed"
    await _set(call, inbound_id, "status", status)
    return {"lot_id": lot_id, "good": good, "damaged": damaged, "inbound_status": status}


@tool(WRITE)
async def move_stock(call: Call, lot_id: str, from_bin: str, to_bin: str, pieces: int) -> dict:
    """Carry free pieces of a lot from one bin to another; pieces held for outbounds stay where they are."""
    await _take(call, from_bin, lot_id, pieces)
    await _put(call, to_bin, lot_id, pieces)
    return {"lot_id": lot_id, "from_bin": from_bin, "to_bin": to_bin, "pieces": pieces}


@tool(WRITE)
async def order_recount(call: Call, bin_id: str, lot_id: str) -> dict:
    """Have a lot counted in one bin by the next shift; opens a count sheet."""
    return {"sheet_id": await _new(call, "CT", bin_id, lot_id, call.now.date(), None, None, None)}


@tool(WRITE)
async def adjust_stock(call: Call, bin_id: str, lot_id: str, delta: int, reason: Cause, approval_id: str | None = None) -> dict:  # fmt: skip
    """Correct the pieces on hand of a lot in a bin by a difference, up (3) or down (-3), citing an approval where one is needed."""
    await _approved(call, approval_id, "adjustment", lot_id, await _value(call, lot_id, abs(delta)))
    await _count(call, bin_id, lot_id, "on_hand", delta)
    new = await _new(call, "AD", bin_id, lot_id, delta, reason, call.now.date(), approval_id)
    return {"adjustment_id": new, "delta": delta}


@tool(WRITE)
async def open_quarantine(call: Call, lot_id: str, reason: Block, report: str) -> dict:
    """Put a whole lot in quarantine, so that nothing of it is picked any more; `report` is one sentence."""
    new = await _new(call, "QC", lot_id, reason, None, call.now.date(), None, report, None)
    return {"quarantine_id": new, "lot_id": lot_id, "reason": reason}


@tool(WRITE)
async def end_quarantine(call: Call, quarantine_id: str, approval_id: str | None = None) -> dict:
    """Release a lot from quarantine by its case, citing an approval where one is needed; it may be picked at once."""
    case = await _row(call, "quarantine_cases", "quarantine_id", quarantine_id)
    if case["ended_on"] is not None:
        raise Refused(f"{quarantine_id} ended on {case['ended_on']}.")
    query = "SELECT coalesce(sum(on_hand), 0) AS sum FROM bin_stock WHERE lot_id = %s"
    value = await _value(call, case["lot_id"], (await _all(call, query, case["lot_id"]))[0]["sum"])
    await _approved(call, approval_id, "release", quarantine_id, value)
    await _set(call, quarantine_id, "ended_on", call.now.date())
    await _set(call, quarantine_id, "approval_id", approval_id)
    return {"quarantine_id": quarantine_id, "lot_id": case["lot_id"], "value": value}


@tool(WRITE)
async def destroy_stock(call: Call, lot_id: str, bin_id: str, pieces: int, approval_id: str | None = None) -> dict:  # fmt: skip
    """Have free pieces of a lot in a bin destroyed for good, citing an approval where one is needed; charges nothing by itself."""
    await _take(call, bin_id, lot_id, pieces)
    value = await _value(call, lot_id, pieces)
    await _approved(call, approval_id, "destruction", lot_id, value)
    row = (bin_id, lot_id, -pieces, "destruction", call.now.date(), approval_id)
    return {"adjustment_id": await _new(call, "AD", *row), "pieces": pieces, "value": value}


@tool(WRITE)
async def steer_outbound(call: Call, outbound_id: str, step: Literal["hold", "resume", "cancel"]) -> dict:  # fmt: skip
    """Put an outbound on hold, let a held one go on (it is `new` again), or cancel it, which frees its pieces; charges nothing by itself."""
    before = (await _row(call, "outbounds", "outbound_id", outbound_id))["status"]
    fits = {"hold": before in ("new", "picking", "packed"), "resume": before == "held",
            "cancel": before not in ("shipped", "cancelled")}  # fmt: skip
    if not fits[step]:
        raise Refused(f"{outbound_id} is {before}.")
    if step == "cancel":
        query = "SELECT * FROM outbound_lines WHERE outbound_id = %s"
        for line in await _all(call, query, outbound_id):
            await _count(call, line["bin_id"], line["lot_id"], "held", -line["pieces"])
    status = {"hold": "held", "resume": "new", "cancel": "cancelled"}[step]
    await _set(call, outbound_id, "status", status)
    return {"outbound_id": outbound_id, "status": status}


@tool(WRITE)
async def change_pieces(call: Call, outbound_id: str, lot_id: str, pieces: int) -> dict:
    """Set how many pieces of a lot an outbound ships (the new number, not the difference), and hold as many in the line's bin."""
    query = "SELECT * FROM outbound_lines WHERE outbound_id = %s AND lot_id = %s"
    lines = await _all(call, query, outbound_id, lot_id)
    if not lines:
        raise Refused(f"{outbound_id} has no line with {lot_id}.")
    await _unshipped(call, outbound_id)
    await _count(call, lines[0]["bin_id"], lot_id, "held", pieces - lines[0]["pieces"])
    query = "UPDATE outbound_lines SET pieces = %s WHERE outbound_id = %s AND lot_id = %s"
    await call.db.execute(query, (pieces, outbound_id, lot_id))
    return {"outbound_id": outbound_id, "lot_id": lot_id, "pieces": pieces}


@tool(WRITE)
async def readdress_outbound(call: Call, outbound_id: str, street: str, postcode: str, town: str, country: str) -> dict:  # fmt: skip
    """Send an outbound to another address: street with number, postcode, town, and country as two letters."""
    await _unshipped(call, outbound_id)
    query = "UPDATE outbounds SET street = %s, postcode = %s, town = %s, country = %s WHERE outbound_id = %s"
    await call.db.execute(query, (street, postcode, town, country, outbound_id))
    return {"outbound_id": outbound_id, "town": town, "country": country}


@tool(WRITE)
async def set_service(call: Call, outbound_id: str, service: Literal["standard", "express"]) -> dict:  # fmt: skip
    """Ship an outbound by `express` or `standard`; charges nothing by itself."""
    await _unshipped(call, outbound_id)
    await _set(call, outbound_id, "service", service)
    return {"outbound_id": outbound_id, "service": service}


@tool(WRITE)
async def put_away_return(call: Call, return_id: str, lot_id: str, grade: Literal["A", "B", "C"], pieces: int, bin_id: str) -> dict:  # fmt: skip
    """Put returned pieces of a lot that have one grade into a bin."""
    query = "SELECT 1 FROM return_items WHERE return_id = %s AND lot_id = %s"
    if not await _all(call, query, return_id, lot_id) or pieces < 1:
        raise Refused(f"{return_id} announces no {lot_id}, or {pieces} is no number of pieces.")
    await _put(call, bin_id, lot_id, pieces)
    columns: dict[str, LiteralString] = {"A": "grade_a", "B": "grade_b", "C": "grade_c"}
    query = f"UPDATE return_items SET {columns[grade]} = {columns[grade]} + %s WHERE return_id = %s AND lot_id = %s"
    await call.db.execute(query, (pieces, return_id, lot_id))
    return {"return_id": return_id, "lot_id": lot_id, "grade": grade, "pieces": pieces}


@tool(WRITE)
async def post_amount(call: Call, kind: Posting, record: str, amount: float, approval_id: str | None = None) -> dict:  # fmt: skip
    """Charge a merchant for a service about an outbound, lot or return; or, with `loss`, pay it for goods that an adjustment took off its
    stock, citing an approval where one is needed. All in the merchant's currency."""
    if record[:2] not in (("AD",) if kind == "loss" else ("OB", "SK", "RT")):
        raise Refused(f"{record} is nothing to post {kind} about.")
    money, owner = _money(amount), await _merchant_of(call, record)
    await _approved(call, approval_id, "loss", record, money)
    new = await _new(call, "MP", owner, kind, record, money, approval_id, call.now.date())
    return {"posting_id": new, "kind": kind, "amount": money}


@tool(WRITE)
async def ask_controller_approval(call: Call, matter: Matter, record: str, amount: float) -> dict:
    """Ask the controller to approve an amount of money for a lot, quarantine case or adjustment: `granted` or `pending`."""
    await _record(call, record)
    value = _money(amount)
    answer = "granted" if value <= GRANTED_UP_TO[matter] else "pending"
    new = await _new(call, "CA", matter, record, value, answer, call.now)
    return {"approval_id": new, "answer": answer, "amount": value}


@tool(WRITE)
async def write_stock_journal(call: Call, lot_id: str, event: Event, pieces: int, note: str) -> dict:  # fmt: skip
    """Write into the stock journal what happened to how many pieces of a lot; `note` is one sentence."""
    return {"entry_id": await _new(call, "SJ", lot_id, event, pieces, note, call.now)}


@tool(WRITE)
async def send_notice(call: Call, caller_id: str, template: Template, record: str) -> dict:
    """Send a merchant's user a notice about a lot, inbound, outbound, return or adjustment."""
    user = await _row(call, "desk_callers", "caller_id", caller_id)
    if user["merchant_id"] is None:
        raise Refused(f"{caller_id} is floor staff, who get no notices.")
    await _record(call, record)
    return {"notice_id": await _new(call, "MN", caller_id, template, record, call.now)}


@tool(WRITE)
async def escalate_to_team(call: Call, caller_id: str, team: Team, record: str, note: str) -> dict:
    """Hand a caller's matter to another team, with the merchant, lot, inbound, outbound, return, quarantine case or adjustment that it is about."""
    await _record(call, record)
    return {"escalation_id": await _new(call, "WE", caller_id, team, record, note, call.now)}


async def _all(call: Call, query: LiteralString, *values: Any) -> list[dict[str, Any]]:
    await call.db.execute(query, values)
    return await call.db.fetchall()


async def _row(call: Call, table: LiteralString, key: LiteralString, value: str) -> dict[str, Any]:
    rows = await _all(call, f"SELECT * FROM {table} WHERE {key} = %s", value)
    if not rows:
        raise Refused(f"There is no {value} among the {table.replace('_', ' ')}.")
    return rows[0]


async def _record(call: Call, record: str) -> dict[str, Any]:
    if record[:2] not in RECORDS:
        raise Refused(f"{record} is nothing that this can be about.")
    return await _row(call, *TABLES[record[:2]], record)


async def _value(call: Call, lot_id: str, pieces: int) -> Decimal:
    sku = await _row(call, "skus", "sku_id", lot_id.partition("/")[0])
    return pieces * sku["unit_value"]


async def _merchant_of(call: Call, record: str) -> str:
    found = await _record(call, record)
    if lot_id := found.get("lot_id"):
        return (await _row(call, "skus", "sku_id", lot_id.partition("/")[0]))["merchant_id"]
    return (await _row(call, "outbounds", "outbound_id", found["outbound_id"]))["merchant_id"]


async def _put(call: Call, bin_id: str, lot_id: str, pieces: int) -> None:
    """Add pieces to a bin, within its capacity; none is no row."""
    room = (await _row(call, "bins", "bin_id", bin_id))["capacity"]
    if pieces == 0:
        return
    query = "SELECT coalesce(sum(on_hand), 0) AS sum FROM bin_stock WHERE bin_id = %s"
    if pieces > (room := room - (await _all(call, query, bin_id))[0]["sum"]):
        raise Refused(f"{bin_id} has room for {room} more pieces, not for {pieces}.")
    query = "INSERT INTO bin_stock VALUES (%s, %s, %s, 0) ON CONFLICT (bin_id, lot_id)"
    query += " DO UPDATE SET on_hand = bin_stock.on_hand + excluded.on_hand"
    await call.db.execute(query, (bin_id, lot_id, pieces))


async def _take(call: Call, bin_id: str, lot_id: str, pieces: int) -> None:
    query = "SELECT on_hand - held AS free FROM bin_stock WHERE bin_id = %s AND lot_id = %s"
    free = sum(row["free"] for row in await _all(call, query, bin_id, lot_id))
    if not 0 < pieces <= free:
        raise Refused(f"{free} pieces of {lot_id} are free in {bin_id}: {pieces} cannot leave.")
    await _count(call, bin_id, lot_id, "on_hand", -pieces)


async def _count(call: Call, bin_id: str, lot_id: str, column: LiteralString, more: int) -> None:
    query = f"UPDATE bin_stock SET {column} = {column} + %s WHERE bin_id = %s AND lot_id = %s"
    await call.db.execute(query, (more, bin_id, lot_id))


async def _unshipped(call: Call, outbound_id: str) -> None:
    status = (await _row(call, "outbounds", "outbound_id", outbound_id))["status"]
    if status in ("shipped", "cancelled"):
        raise Refused(f"{outbound_id} is {status}.")


async def _approved(call: Call, approval_id: str | None, matter: str, record: str, amount: Decimal) -> None:  # fmt: skip
    if approval_id is None:
        return
    found = await _row(call, "controller_approvals", "approval_id", approval_id)
    asked = (found["matter"], found["record"], found["amount"], found["answer"])
    if asked != (matter, record, amount, "granted"):
        raise Refused(f"{approval_id} does not approve {amount} for {record}.")


async def _show(call: Call, record: str) -> dict[str, Any]:
    """A record with what belongs to it."""
    found = await _record(call, record)
    for name, part in PARTS[record[:2]].items():
        query = f"SELECT {part} WHERE {TABLES[record[:2]][1]} = %s ORDER BY 1"
        found[name] = await _all(call, query, record)
    return found


async def _set(call: Call, record: str, column: LiteralString, value: Any) -> None:
    table, key = TABLES[record[:2]]
    await call.db.execute(f"UPDATE {table} SET {column} = %s WHERE {key} = %s", (value, record))


def _money(amount: float) -> Decimal:
    value = Decimal(str(amount))
    if not value.is_finite() or not 0 < value < 1_000_000 or value != round(value, 2):
        raise Refused("The amount must be above zero, below a million, with at most two decimals.")
    return round(value, 2)


async def _new(call: Call, letters: str, *values: Any) -> str:
    """Add a row under the id after the highest one, which is returned."""
    # From the rows, not a sequence: a refused call must not shift the ids of later ones.
    table, column = TABLES[letters]
    query = f"SELECT coalesce(max(substr({column}, 4)::integer), 0) + 1 AS next FROM {table}"
    new = f"{letters}-{(await _all(call, query))[0]['next']}"
    marks: LiteralString = ", %s" * len(values)
    await call.db.execute(f"INSERT INTO {table} VALUES (%s{marks})", (new, *values))
    return new
