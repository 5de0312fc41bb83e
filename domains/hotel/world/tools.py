"""The tools of guest services.

They enforce what the database must never hold: unknown ids, a room let twice, a night sold that is not there, money
paid back that never came, a sign-off used for something else. What the policy asks of the agent (fees, tariffs, tiers,
limits, logbook, letters) they leave to the agent.
"""

from datetime import date
from decimal import Decimal
from typing import Any, Literal, LiteralString

from env_server.toolkit import READ, WRITE, Call, Refused, tool

House = Literal["LEI", "NYH", "TRI", "POR"]
Fee = Literal["cancellation", "early_departure", "late_checkout", "shipping"]
Reason = Literal["defect", "charged_twice", "wrong_rate", "not_consumed", "no_show", "goodwill"]
Item = Literal["room", "breakfast", "parking", "minibar", "laundry"]
Problem = Literal["water", "heating", "power", "lock", "noise", "internet", "furniture"]
Matter = Literal["allowance", "waiver", "block", "firm_bill"]
How = Literal["sent", "set_aside"]
Letter = Literal[
    "cancelled", "dates_changed", "late_checkout", "room_moved", "folio_corrected", "voucher_used",
    "points_credited", "block_changed", "item_sent", "item_ready", "bill_split",
]  # fmt: skip
Entry = Literal[
    "cancelled", "fee_waived", "dates_changed", "room_moved", "allowance", "block_changed",
    "item_released", "billed_to_firm", "arrival_announced", "remark",
]  # fmt: skip
Desk = Literal["privacy", "rooms_division", "groups", "accounts", "security", "other"]

DUTY_LIMIT = {"EUR": Decimal(400), "GBP": Decimal(350), "DKK": Decimal(3000)}
"""The duty manager grants up to here at once; what is above waits."""
TABLES: dict[str, tuple[LiteralString, LiteralString, LiteralString]] = {
    "KQ": ("stays", "stay_id", "stay"), "GR": ("group_blocks", "block_id", "group block"),
    "FI": ("found_items", "item_id", "found item"), "GU": ("guests", "guest_id", "guest"),
    "VO": ("stay_vouchers", "voucher_id", "voucher"), "DS": ("duty_signoffs", "signoff_id", "sign-off"),
    "FL": ("folio_lines", "line_id", "folio line"), "SP": ("star_points", "entry_id", "entry"),
    "DF": ("defects", "defect_id", "defect"), "LT": ("letters", "letter_id", "letter"),
    "LG": ("logbook", "entry_id", "log entry"), "HO": ("handovers", "handover_id", "handover"),
}  # fmt: skip
"""Table, key and name of the records by the first letters of their ids."""
FREE = "NOT out_of_order AND room NOT IN (SELECT room FROM stays WHERE status = 'in_house')"
RECORDS = ("KQ", "GR", "FI")
"""What letters, log entries, sign-offs and handovers may be about."""


@tool(READ)
async def find_guest(call: Call, email: str) -> dict:
    """Find a guest by email address: id, name, country and member tier."""
    query = "SELECT guest_id, name, country, tier, since FROM guests WHERE email = lower(%s)"
    rows = await _all(call, query, email.strip())
    if not rows:
        raise Refused(f"No guest has the email address {email}.")
    return rows[0]


@tool(READ)
async def show_guest(call: Call, guest_id: str) -> dict:
    """Show a guest with all stays, vouchers, member points and group blocks."""
    guest = await _record(call, guest_id, "GU")
    query = "SELECT stay_id, house, kind, tariff, source, arrive, depart, status, room FROM stays"
    stays = await _all(call, f"{query} WHERE guest_id = %s ORDER BY arrive, stay_id", guest_id)
    query = "SELECT voucher_id, amount, currency, valid_until, used_for FROM stay_vouchers"
    vouchers = await _all(call, f"{query} WHERE guest_id = %s ORDER BY 1", guest_id)
    query = "SELECT stay_id, points, credited_at FROM star_points WHERE guest_id = %s"
    points = await _all(call, f"{query} ORDER BY entry_id", guest_id)
    query = "SELECT block_id, title, house, arrive FROM group_blocks WHERE guest_id = %s ORDER BY 1"
    blocks = await _all(call, query, guest_id)
    return {**guest, "stays": stays, "vouchers": vouchers, "points": points, "groups": blocks}


@tool(READ)
async def show_stay(call: Call, stay_id: str) -> dict:
    """Show a stay: dates, tariff, nightly price and currency, firm with what it covers, defects of its room, logbook."""
    stay = await _record(call, stay_id, "KQ")
    firm = await _all(call, "SELECT * FROM firms WHERE firm_id = %s", stay["firm_id"])
    query = "SELECT defect_id, problem, urgent, detail, opened_on, fixed_on FROM defects WHERE room"
    query += " = %s AND opened_on < %s AND coalesce(fixed_on, 'infinity') >= %s ORDER BY opened_on"
    span = (stay["room"], stay["depart"], stay["arrive"])
    defects = await _all(call, f"{query}, defect_id", *span)
    return {
        **stay,
        "currency": await _currency(call, stay["house"]),
        "firm": firm[0] if firm else None,
        "defects_of_room": defects,
        "log": await _log(call, stay_id),
    }


@tool(READ)
async def show_folio(call: Call, stay_id: str) -> dict:
    """Show all lines of a stay's folio in the house's currency, and the balance that the guest owes (below zero: has paid ahead)."""
    stay = await _record(call, stay_id, "KQ")
    query = "SELECT line_id, item, amount, night, payer, reason, posted_at FROM folio_lines"
    query += " WHERE stay_id = %s ORDER BY posted_at, substr(line_id, 4)::integer"
    lines = await _all(call, query, stay_id)
    balance = sum((line["amount"] for line in lines if line["payer"] == "guest"), Decimal("0.00"))
    currency = await _currency(call, stay["house"])
    return {"stay_id": stay_id, "currency": currency, "lines": lines, "balance": balance}


@tool(READ)
async def list_open_nights(call: Call, house: House, arrive: date, depart: date) -> dict:
    """List by night how many rooms of each kind a house can still sell, from arrival to the night before departure (YYYY-MM-DD)."""
    query = "SELECT night, kind, left_open FROM room_nights JOIN room_kinds USING (house, kind)"
    query += " WHERE house = %s AND night >= %s AND night < %s ORDER BY night, rank"
    rows = await _all(call, query, house, arrive, depart)
    nights: dict[str, dict[str, int]] = {}
    for row in rows:
        nights.setdefault(row["night"].isoformat(), {})[row["kind"]] = row["left_open"]
    return {"house": house, "open": nights}


@tool(READ)
async def list_free_rooms(call: Call, house: House) -> dict:
    """List the rooms of a house that are free and in order right now, with kind and rank (higher is better)."""
    query = f"SELECT room, kind, rank FROM rooms JOIN room_kinds USING (house, kind) WHERE {FREE}"
    rows = await _all(call, f"{query} AND house = %s ORDER BY room", house)
    return {"house": house, "free": rows}


@tool(READ)
async def show_block(call: Call, block_id: str) -> dict:
    """Show a group block: organiser, house, kind of room, dates, rooms contracted and held, nightly price, release date, log."""
    block = await _record(call, block_id, "GR")
    currency = await _currency(call, block["house"])
    return {**block, "currency": currency, "log": await _log(call, block_id)}


@tool(READ)
async def list_found_items(call: Call, house: House, since: date) -> dict:
    """List what was found in the rooms of a house since a day (YYYY-MM-DD), and where each thing is."""
    query = (
        "SELECT item_id, room, found_on, description, valuable, state FROM found_items JOIN rooms"
    )
    query += " USING (room) WHERE house = %s AND found_on >= %s ORDER BY found_on, item_id"
    rows = await _all(call, query, house, since)
    return {"house": house, "found": rows}


@tool(WRITE)
async def cancel_stay(call: Call, stay_id: str) -> dict:
    """Cancel a stay that has not begun and give its nights back for sale. Fees and paybacks are separate."""
    stay = await _in_status(call, stay_id, "booked")
    await _sell(call, stay, stay["arrive"], stay["depart"], 1)
    await call.db.execute("UPDATE stays SET status = 'cancelled' WHERE stay_id = %s", (stay_id,))
    return {"stay_id": stay_id, "status": "cancelled"}


@tool(WRITE)
async def change_dates(call: Call, stay_id: str, arrive: date, depart: date) -> dict:
    """Give a booked stay other dates, or a stay in house another departure (YYYY-MM-DD); the nightly price stays."""
    stay = await _in_status(call, stay_id, "booked", "in_house")
    begun = stay["status"] == "in_house"
    if begun and arrive != stay["arrive"]:
        raise Refused(f"Stay {stay_id} has begun on {stay['arrive']}; only departure can move.")
    today = call.now.date()
    if depart <= arrive or depart < today or (arrive < today and not begun):
        raise Refused("Departure must be after arrival, and neither in the past.")
    await _sell(call, stay, stay["arrive"], stay["depart"], 1)
    await _sell(call, stay, arrive, depart, -1)
    query = "UPDATE stays SET arrive = %s, depart = %s WHERE stay_id = %s"
    await call.db.execute(query, (arrive, depart, stay_id))
    return {"stay_id": stay_id, "arrive": arrive, "depart": depart}


@tool(WRITE)
async def set_checkout_hour(call: Call, stay_id: str, hour: int) -> dict:
    """Let a guest in house keep the room on the day of departure until this hour (12 to 20). The fee is separate."""
    await _in_status(call, stay_id, "in_house")
    if not 12 <= hour <= 20:
        raise Refused("The hour must be between 12 and 20.")
    await call.db.execute("UPDATE stays SET checkout_hour = %s WHERE stay_id = %s", (hour, stay_id))
    return {"stay_id": stay_id, "checkout_hour": hour}


@tool(WRITE)
async def move_to_room(call: Call, stay_id: str, room: str) -> dict:
    """Move a guest in house to another free room of the same house, at the same price."""
    stay = await _in_status(call, stay_id, "in_house")
    query = f"SELECT kind FROM rooms WHERE {FREE} AND room = %s AND house = %s"
    free = await _all(call, query, room, stay["house"])
    if not free:
        raise Refused(f"{room} is not a free room of {stay['house']}.")
    await call.db.execute("UPDATE stays SET room = %s WHERE stay_id = %s", (room, stay_id))
    return {"stay_id": stay_id, "room": room, "kind": free[0]["kind"]}


@tool(WRITE)
async def report_defect(call: Call, room: str, problem: Problem, urgent: bool, detail: str) -> dict:
    """Report something broken in a room to the technicians; `detail` is one sentence."""
    if not await _all(call, "SELECT 1 FROM rooms WHERE room = %s", room):
        raise Refused(f"There is no room {room}.")
    new = await _add(call, "DF", room, problem, urgent, detail, call.now.date())
    return {"defect_id": new, "room": room, "problem": problem}


@tool(WRITE)
async def charge_fee(call: Call, stay_id: str, fee: Fee, amount: float) -> dict:
    """Put a fee on a stay's folio, in the house's currency."""
    await _record(call, stay_id, "KQ")
    return await _post(call, stay_id, fee, _money(amount))


@tool(WRITE)
async def grant_allowance(
    call: Call, stay_id: str, amount: float, reason: Reason, signoff_id: str | None = None
) -> dict:
    """Take an amount off a stay's folio, in the house's currency, citing a sign-off where one is needed."""
    await _record(call, stay_id, "KQ")
    money = _money(amount)
    charged = await _sum(call, stay_id, "NOT IN ('payment', 'payback', 'voucher')")
    if money > charged:
        raise Refused(f"{money} is too much: {charged} is charged on {stay_id}.")
    if signoff_id is not None:
        given = await _record(call, signoff_id, "DS")
        asked = (given["matter"], given["record"], given["amount"], given["decision"])
        if asked != ("allowance", stay_id, money, "granted"):
            raise Refused(f"{signoff_id} does not grant an allowance of {money} on {stay_id}.")
    return await _post(call, stay_id, "allowance", -money, reason, signoff_id)


@tool(WRITE)
async def pay_back(call: Call, stay_id: str, amount: float) -> dict:
    """Pay money of a stay back to the guest's card, never more than came in and was not paid back yet."""
    await _record(call, stay_id, "KQ")
    money = _money(amount)
    there = -await _sum(call, stay_id, "IN ('payment', 'payback')")
    if money > there:
        raise Refused(f"{money} is too much: {there} of {stay_id} can be paid back.")
    return await _post(call, stay_id, "payback", money)


@tool(WRITE)
async def redeem_voucher(call: Call, voucher_id: str, stay_id: str) -> dict:
    """Use a whole voucher for the folio of a stay; it cannot be used again."""
    voucher = await _record(call, voucher_id, "VO")
    await _record(call, stay_id, "KQ")
    if voucher["used_for"] is not None:
        raise Refused(f"Voucher {voucher_id} was used for {voucher['used_for']}.")
    query = "UPDATE stay_vouchers SET used_for = %s WHERE voucher_id = %s"
    await call.db.execute(query, (stay_id, voucher_id))
    return await _post(call, stay_id, "voucher", -voucher["amount"])


@tool(WRITE)
async def credit_points(call: Call, stay_id: str, points: int) -> dict:
    """Credit the guest of a stay with member points for it."""
    stay = await _record(call, stay_id, "KQ")
    if not 0 < points < 1_000_000:
        raise Refused("Points must be above zero and below a million.")
    new = await _add(call, "SP", stay["guest_id"], stay_id, points, call.now)
    return {"entry_id": new, "guest_id": stay["guest_id"], "points": points}


@tool(WRITE)
async def resize_block(call: Call, block_id: str, held: int) -> dict:
    """Set how many rooms a group block holds; rooms given up can be sold again, rooms added must be open in every night."""
    block = await _record(call, block_id, "GR")
    if not 0 <= held <= 100 or held == block["held"]:
        raise Refused(f"Block {block_id} holds {block['held']} rooms; {held} is no other number.")
    await _sell(call, block, block["arrive"], block["depart"], block["held"] - held)
    await call.db.execute("UPDATE group_blocks SET held = %s WHERE block_id = %s", (held, block_id))
    return {"block_id": block_id, "held": held}


@tool(WRITE)
async def release_item(call: Call, item_id: str, stay_id: str, how: How) -> dict:
    """Give a found item to the guest of a stay: `sent` by post, or `set_aside` at the reception to be collected."""
    item = await _record(call, item_id, "FI")
    await _record(call, stay_id, "KQ")
    if item["state"] != "held":
        raise Refused(f"Item {item_id} is {item['state']} already.")
    query = "UPDATE found_items SET state = %s, stay_id = %s WHERE item_id = %s"
    await call.db.execute(query, (how, stay_id, item_id))
    return {"item_id": item_id, "state": how}


@tool(WRITE)
async def bill_to_firm(call: Call, stay_id: str, item: Item) -> dict:
    """Move all lines of one item from the guest's part of a folio to that of the stay's firm."""
    stay = await _record(call, stay_id, "KQ")
    if stay["firm_id"] is None:
        raise Refused(f"Stay {stay_id} belongs to no firm.")
    query = "UPDATE folio_lines SET payer = 'firm' WHERE payer = 'guest' AND stay_id = %s"
    await call.db.execute(f"{query} AND item = %s", (stay_id, item))
    if not call.db.rowcount:
        raise Refused(f"The guest's part of {stay_id} has no {item}.")
    return {"stay_id": stay_id, "item": item, "lines": call.db.rowcount, "firm": stay["firm_id"]}


@tool(WRITE)
async def ask_duty_manager(call: Call, matter: Matter, record: str, amount: float) -> dict:
    """Ask the duty manager to sign off an amount for a stay or group block. Answers `granted` or `waiting`."""
    house = (await _record(call, record, *RECORDS[:2]))["house"]
    money = _money(amount)
    decision = "granted" if money <= DUTY_LIMIT[await _currency(call, house)] else "waiting"
    new = await _add(call, "DS", matter, record, money, decision, call.now)
    return {"signoff_id": new, "decision": decision, "amount": money}


@tool(WRITE)
async def send_letter(call: Call, guest_id: str, letter: Letter, record: str) -> dict:
    """Send a guest a letter by email about a stay, group block or found item."""
    await _record(call, guest_id, "GU")
    await _record(call, record, *RECORDS)
    new = await _add(call, "LT", guest_id, letter, record, call.now)
    return {"letter_id": new, "letter": letter}


@tool(WRITE)
async def write_log(call: Call, record: str, entry: Entry, detail: str) -> dict:
    """Write an entry in the logbook about a stay, group block or found item; `detail` is one sentence."""
    await _record(call, record, *RECORDS)
    new = await _add(call, "LG", record, entry, detail, call.now)
    return {"entry_id": new, "entry": entry}


@tool(WRITE)
async def hand_over(call: Call, guest_id: str, desk: Desk, record: str, note: str) -> dict:
    """Hand a matter of a guest over to colleagues, with the stay, group block or found item it is about."""
    await _record(call, guest_id, "GU")
    await _record(call, record, *RECORDS)
    new = await _add(call, "HO", guest_id, desk, record, note, call.now)
    return {"handover_id": new, "desk": desk}


async def _all(call: Call, query: LiteralString, *values: Any) -> list[dict[str, Any]]:
    await call.db.execute(query, values)
    return await call.db.fetchall()


async def _record(call: Call, record_id: str, *kinds: str) -> dict[str, Any]:
    """The row of a record whose id begins with one of these letters."""
    if record_id[:2] not in kinds:
        names = " or ".join(TABLES[kind][2] for kind in kinds)
        raise Refused(f"{record_id} is no {names}.")
    table, key, name = TABLES[record_id[:2]]
    rows = await _all(call, f"SELECT * FROM {table} WHERE {key} = %s", record_id)
    if not rows:
        raise Refused(f"There is no {name} {record_id}.")
    return rows[0]


async def _in_status(call: Call, stay_id: str, *statuses: str) -> dict[str, Any]:
    stay = await _record(call, stay_id, "KQ")
    if stay["status"] not in statuses:
        raise Refused(f"Stay {stay_id} is {stay['status']}.")
    return stay


async def _sell(call: Call, what: dict[str, Any], first: date, end: date, more: int) -> None:
    """Make so many more rooms open in the nights from today on; below zero sells, Refused where none is left."""
    first = max(first, call.now.date())
    place = (what["house"], what["kind"], first, end, more)
    where = "house = %s AND kind = %s AND night >= %s AND night < %s AND left_open + %s >= 0"
    query = f"UPDATE room_nights SET left_open = left_open + %s WHERE {where}"
    await call.db.execute(query, (more, *place))
    if more < 0 and call.db.rowcount < (end - first).days:
        raise Refused(f"{what['house']} has too few {what['kind']} rooms open until {end}.")


async def _post(
    call: Call, stay_id: str, item: str, amount: Decimal, *why: str | None
) -> dict[str, Any]:
    reason, signoff = why or (None, None)
    new = await _add(call, "FL", stay_id, item, amount, None, "guest", reason, signoff, call.now)
    return {"line_id": new, "stay_id": stay_id, "item": item, "amount": amount}


async def _sum(call: Call, stay_id: str, items: LiteralString) -> Decimal:
    query = f"SELECT coalesce(sum(amount), 0) AS total FROM folio_lines WHERE item {items}"
    return (await _all(call, f"{query} AND stay_id = %s", stay_id))[0]["total"]


async def _currency(call: Call, house: str) -> str:
    return (await _all(call, "SELECT currency FROM houses WHERE house = %s", house))[0]["currency"]


async def _log(call: Call, record: str) -> list[dict[str, Any]]:
    query = "SELECT entry, detail, at FROM logbook WHERE record = %s ORDER BY at, entry_id"
    return await _all(call, query, record)


def _money(amount: float) -> Decimal:
    value = Decimal(str(amount))
    if not value.is_finite() or not 0 < value < 1_000_000 or value != round(value, 2):
        raise Refused("The amount must be above zero, below a million, with at most two decimals.")
    return round(value, 2)


async def _add(call: Call, kind: str, *values: Any) -> str:
    """Insert a row with the next id of its kind, which is answered."""
    table, key, _ = TABLES[kind]
    # From the rows, not a sequence: a refused call must not shift the ids of later ones.
    query = f"SELECT coalesce(max(substr({key}, 4)::integer), 0) + 1 AS next FROM {table}"
    new = f"{kind}-{(await _all(call, query))[0]['next']}"
    places = ", %s" * len(values)
    await call.db.execute(f"INSERT INTO {table} VALUES (%s{places})", (new, *values))
    return new
