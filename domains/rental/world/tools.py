"""The tools of the hire desk.

They enforce what the database must never hold: one machine with two hirers, trucks that are not there, deposits released
twice, credits above what was charged. What the rules ask (prices, limits, cards, tests, rights, log) they leave to the agent.
"""

from datetime import date
from decimal import Decimal
from typing import Any, Literal, LiteralString

from env_server.toolkit import READ, WRITE, Call, Refused, tool

Row = dict[str, Any]
Depot = Literal["HUL", "RTM", "ANT", "GDY"]
MachineClass = Literal["mini_excavator", "excavator", "telehandler", "scissor_lift", "boom_lift", "dumper", "roller", "generator", "compressor", "heater", "pump", "chipper"]  # fmt: skip
Half = Literal["am", "pm"]
Direction = Literal["deliver", "collect"]
Charge = Literal["hire", "transport", "cancellation", "damage"]
Reason = Literal["early_return", "downtime", "late", "fuel", "overtime", "double", "wrong_rate", "goodwill"]  # fmt: skip
Symptom = Literal["engine", "hydraulics", "electrics", "tyre", "other"]
Matter = Literal["credit", "damage", "credit_limit"]
Notice = Literal["hire_confirmed", "dates_changed", "cancelled", "transport_set", "machine_swapped", "credit_given", "damage_bill", "deposit_settled", "invoice_reissued", "rights_changed"]  # fmt: skip
Entry = Literal["reserved", "end_changed", "cancelled", "transport", "collection_asked", "swapped", "credited", "damage_charged", "deposit_settled", "reference_set", "reported_stolen", "rights_changed", "remark"]  # fmt: skip
Team = Literal["data_protection", "credit_control", "workshop", "claims", "accounts", "security", "key_accounts"]  # fmt: skip
Zone = Literal["A", "B", "C"]
MANAGER_LIMIT = {"EUR": Decimal(600), "GBP": Decimal(520), "PLN": Decimal(2600)}
"""Branch managers grant at once up to here; above, it stays pending."""
TABLES: dict[str, tuple[LiteralString, LiteralString, LiteralString]] = {
    "RH": ("hires", "hire_id", "hire"), "HR": ("hirers", "hirer_id", "hirer"),
    "CP": ("hirer_contacts", "contact_id", "contact"), "MX": ("machines", "machine_id", "machine"),
    "HI": ("hire_invoices", "invoice_id", "invoice"), "DI": ("damage_items", "damage_id", "damage item"),
    "MC": ("manager_clearances", "clearance_id", "clearance"), "HC": ("hire_charges", "charge_id", "charge"),
    "DP": ("deposits_held", "deposit_id", "deposit"), "TR": ("truck_runs", "run_id", "run"),
    "BD": ("breakdowns", "breakdown_id", "breakdown"), "HN": ("hire_notices", "notice_id", "notice"),
    "HL": ("hire_log", "entry_id", "log entry"), "EM": ("escalated_matters", "matter_id", "matter"),
}  # fmt: skip
"""Table, key and name of the records by the first letters of their ids."""
ABOUT = ("RH", "HR", "CP", "HI")
"""What notices, log entries and escalations are about."""
PLANNED = "SELECT * FROM truck_runs WHERE hire_id = %s AND state = 'planned'"


@tool(READ)
async def look_up_caller(call: Call, email: str) -> dict:
    """Look a caller up by email address: contact, hirer, and whether the contact owns the account and may order."""
    query = "SELECT contact_id, c.name, owner, may_order, hirer_id, h.name AS hirer, kind, on_stop"
    query += " FROM hirer_contacts c JOIN hirers h USING (hirer_id) WHERE email = lower(%s)"
    rows = await _all(call, query, email.strip())
    if not rows:
        raise Refused(f"No contact has the email address {email}.")
    return rows[0]


@tool(READ)
async def open_hirer(call: Call, hirer_id: str) -> dict:
    """Open a hirer: credit limit and what is owed, contacts with their rights, operator cards, and all hires."""
    hirer = await _record(call, hirer_id, "HR")
    query = "SELECT contact_id, name, owner, may_order FROM hirer_contacts WHERE hirer_id = %s"
    contacts = await _all(call, f"{query} ORDER BY 1", hirer_id)
    query = "SELECT holder, card_group, valid_until FROM operator_cards WHERE hirer_id = %s"
    cards = await _all(call, f"{query} ORDER BY 1, 2", hirer_id)
    query = "SELECT hire_id, class, depot, starts_on, ends_on, returned_on, status FROM hires"
    query += " JOIN machines USING (machine_id) WHERE hirer_id = %s ORDER BY starts_on, hire_id"
    hires = await _all(call, query, hirer_id)
    return {**hirer, "contacts": contacts, "operator_cards": cards, "hires": hires}


@tool(READ)
async def open_hire(call: Call, hire_id: str) -> dict:
    """Open a hire: days, rate, term, damage waiver, site zone, machine with test and tracker, runs, deposit, breakdowns, log."""
    hire = await _record(call, hire_id, "RH")
    machine = await _record(call, hire["machine_id"], "MX")
    query = "SELECT min(starts_on) AS day FROM hires WHERE machine_id = %s AND status = 'reserved'"
    query += " AND starts_on > %s AND hire_id <> %s"
    following = await _all(call, query, hire["machine_id"], hire["starts_on"], hire_id)
    query = "SELECT run_id, direction, run_day, half, state FROM truck_runs WHERE hire_id = %s"
    runs = await _all(call, f"{query} ORDER BY run_day, run_id", hire_id)
    query = "SELECT symptom, detail, reported_on, fixed_on, finding FROM breakdowns"
    broken = await _all(call, f"{query} WHERE hire_id = %s ORDER BY breakdown_id", hire_id)
    query = "SELECT amount, released FROM deposits_held WHERE hire_id = %s"
    deposit = await _all(call, query, hire_id)
    machine["reserved_for_others_from"] = following[0]["day"]
    own = {**hire, "machine": machine, "runs": runs, "deposit": (deposit or [None])[0]}
    return {**own, "breakdowns": broken, "log": await _log(call, hire_id)}


@tool(READ)
async def open_charges(call: Call, hire_id: str) -> dict:
    """Open the money of a hire: charges, credits and payments with the balance still owed, invoices, and the return check with fuel (percent), engine hours and damage."""
    await _record(call, hire_id, "RH")
    query = "SELECT charge_id, item, amount, for_day, reason FROM hire_charges WHERE hire_id = %s"
    lines = await _all(call, f"{query} ORDER BY substr(charge_id, 4)::integer", hire_id)
    query = "SELECT invoice_id, issued_on, amount, state, order_reference FROM hire_invoices"
    bills = await _all(call, f"{query} WHERE hire_id = %s ORDER BY 1", hire_id)
    invoices = [{**bill, "log": await _log(call, bill["invoice_id"])} for bill in bills]
    checks = await _all(call, "SELECT * FROM return_checks WHERE hire_id = %s", hire_id)
    query = "SELECT damage_id, what, cause, cost, charged FROM damage_items JOIN return_checks"
    damage = await _all(call, f"{query} USING (check_id) WHERE hire_id = %s ORDER BY 1", hire_id)
    balance = sum((line["amount"] for line in lines), Decimal("0.00"))
    own = {"currency": await _currency(call, hire_id), "charges": lines, "balance": balance}
    return {**own, "invoices": invoices, "return_check": (checks or [None])[0], "damage": damage}


@tool(READ)
async def rate_card(call: Call, depot: Depot) -> dict:
    """Show what a depot charges: currency, run fees by zone, a litre of fuel, and for each class day rate, deposit, card group, tank, heavy or not."""
    own = await _all(call, "SELECT * FROM hire_depots WHERE depot = %s", depot)
    query = "SELECT * FROM class_rates JOIN machine_classes USING (class) WHERE depot = %s"
    return {**own[0], "classes": await _all(call, f"{query} ORDER BY class", depot)}


@tool(READ)
async def machines_free(call: Call, depot: Depot, machine_class: MachineClass, first_day: date, last_day: date) -> list:  # fmt: skip
    """List the machines of a class that nobody else has from the first to the last day (YYYY-MM-DD), with the day their safety test runs out."""
    return await _free(call, depot, machine_class, first_day, last_day)


@tool(READ)
async def truck_space(call: Call, depot: Depot, first_day: date, last_day: date) -> list:
    """List how many runs the trucks of a depot can still make in each half-day from the first to the last day (YYYY-MM-DD)."""
    query = "SELECT run_day, half, left_free FROM truck_slots WHERE depot = %s AND run_day BETWEEN %s AND %s"
    return await _all(call, f"{query} ORDER BY run_day, half", depot, first_day, last_day)


@tool(WRITE)
async def reserve_machine(
    call: Call, hirer_id: str, machine_id: str, starts_on: date, ends_on: date, price: float, site_zone: Zone | None = None, deposit: float | None = None
) -> dict:  # fmt: skip
    """Reserve a machine for a hirer, first to last day (YYYY-MM-DD), flexible, without waiver; `site_zone` only where trucks go, `deposit` to hold one on the payment card."""
    if not call.now.date() <= starts_on <= ends_on:
        raise Refused("The first day must not be in the past, nor after the last.")
    rate = await _rate_if_free(call, machine_id, starts_on, ends_on)
    days = (starts_on, ends_on, None, rate, _money(price))
    new = await _add(call, "RH", hirer_id, machine_id, *days, "flexible", False, site_zone, "reserved", "")  # fmt: skip
    if deposit is not None:
        await _add(call, "DP", new, _money(deposit), None)
    return {"hire_id": new, "machine_id": machine_id, "starts_on": starts_on, "ends_on": ends_on}


@tool(WRITE)
async def settle_deposit(call: Call, hire_id: str, released: float) -> dict:
    """Settle the deposit of a hire for good: release this much (0 or more), and keep the rest as payment for the hire."""
    rows = await _all(call, "SELECT * FROM deposits_held WHERE hire_id = %s", hire_id)
    if not rows or rows[0]["released"] is not None:
        raise Refused(f"No deposit is held for {hire_id}.")
    held, money = rows[0]["amount"], _money(released) if released else Decimal("0.00")
    await _set(call, rows[0]["deposit_id"], "released", money)
    if held > money:
        await _post(call, hire_id, "payment", money - held)
    return {"hire_id": hire_id, "released": money, "kept": held - money}


@tool(WRITE)
async def set_hire_end(call: Call, hire_id: str, ends_on: date) -> dict:
    """Give a machine on hire another last day (YYYY-MM-DD). Money and trucks are separate."""
    hire = await _in_status(call, hire_id, "on_hire")
    if ends_on < call.now.date() or ends_on == hire["ends_on"]:
        raise Refused(f"{ends_on} is past, or the last day of {hire_id} already.")
    query = "SELECT 1 FROM hires WHERE machine_id = %s AND status = 'reserved' AND starts_on <= %s"
    if await _all(call, query, hire["machine_id"], ends_on):
        raise Refused(f"Machine {hire['machine_id']} is reserved for somebody else by then.")
    await _set(call, hire_id, "ends_on", ends_on)
    return {"hire_id": hire_id, "ends_on": ends_on}


@tool(WRITE)
async def drop_reservation(call: Call, hire_id: str) -> dict:
    """Cancel a reserved hire and its planned runs with their charges; fees and deposit are separate."""
    await _in_status(call, hire_id, "reserved")
    for run in await _all(call, f"{PLANNED} ORDER BY run_id", hire_id):
        await _slot(call, hire_id, run["run_day"], run["half"], 1)
        await _set(call, run["run_id"], "state", "dropped")
    await call.db.execute("DELETE FROM hire_charges WHERE hire_id = %s", (hire_id,))
    await _set(call, hire_id, "status", "cancelled")
    return {"hire_id": hire_id, "status": "cancelled"}


@tool(WRITE)
async def plan_run(call: Call, hire_id: str, direction: Direction, run_day: date, half: Half) -> dict:  # fmt: skip
    """Plan a truck run for a hire, or move the planned one of this direction, to a day (YYYY-MM-DD) and half-day. The fee is separate."""
    await _in_status(call, hire_id, "reserved", "on_hire")
    planned = await _all(call, f"{PLANNED} AND direction = %s", hire_id, direction)
    for run in planned:
        await _slot(call, hire_id, run["run_day"], run["half"], 1)
    await _slot(call, hire_id, run_day, half, -1)
    run_id = planned[0]["run_id"] if planned else await _add(call, "TR", hire_id, direction, run_day, half, "planned")  # fmt: skip
    await _set(call, run_id, "run_day", run_day)
    await _set(call, run_id, "half", half)
    return {"run_id": run_id, "run_day": run_day, "half": half}


@tool(WRITE)
async def add_hire_charge(
    call: Call, hire_id: str, item: Charge, amount: float, damage_id: str | None = None, clearance_id: str | None = None
) -> dict:  # fmt: skip
    """Add a charge to a hire; `damage` names its damage item, and cites a clearance where one is needed."""
    await _record(call, hire_id, "RH")
    money = _money(amount)
    if damage_id is not None:
        query = "UPDATE damage_items SET charged = true WHERE damage_id = %s AND NOT charged"
        query += " AND check_id = (SELECT check_id FROM return_checks WHERE hire_id = %s)"
        await call.db.execute(query, (damage_id, hire_id))
        if not call.db.rowcount:
            raise Refused(f"{damage_id} is no open damage item of {hire_id}.")
    if clearance_id is not None:
        await _cleared(call, clearance_id, "damage", hire_id, money)
    return await _post(call, hire_id, item, money, None, damage_id, clearance_id)


@tool(WRITE)
async def give_hire_credit(call: Call, hire_id: str, amount: float, reason: Reason, clearance_id: str | None = None) -> dict:  # fmt: skip
    """Take an amount off the charges of a hire, citing a clearance where one is needed."""
    money = _money(amount)
    query = "SELECT coalesce(sum(amount), 0) AS due FROM hire_charges WHERE item <> 'payment'"
    due = (await _all(call, f"{query} AND hire_id = %s", hire_id))[0]["due"]
    if money > due:
        raise Refused(f"{money} is too much: {due} is charged for {hire_id}.")
    if clearance_id is not None:
        await _cleared(call, clearance_id, "credit", hire_id, money)
    return await _post(call, hire_id, "credit", -money, reason, None, clearance_id)


@tool(WRITE)
async def report_breakdown(call: Call, hire_id: str, symptom: Symptom, detail: str) -> dict:
    """Report that the machine of a hire has failed; `detail` is one sentence for the workshop."""
    await _in_status(call, hire_id, "on_hire")
    day = call.now.date()
    return {"breakdown_id": await _add(call, "BD", hire_id, symptom, detail, day, None, None)}


@tool(WRITE)
async def swap_machine(call: Call, hire_id: str, machine_id: str) -> dict:
    """Give a hire another free machine; the old one goes to the workshop."""
    hire = await _in_status(call, hire_id, "on_hire")
    await _rate_if_free(call, machine_id, call.now.date(), max(hire["ends_on"], call.now.date()))
    await _set(call, hire["machine_id"], "state", "workshop")
    await _set(call, hire_id, "machine_id", machine_id)
    return {"hire_id": hire_id, "machine_id": machine_id}


@tool(WRITE)
async def set_order_reference(call: Call, invoice_id: str, reference: str) -> dict:
    """Put the hirer's order reference on an invoice, in place of one that is there."""
    await _record(call, invoice_id, "HI")
    await _set(call, invoice_id, "order_reference", reference)
    return {"invoice_id": invoice_id, "order_reference": reference}


@tool(WRITE)
async def set_ordering_right(call: Call, contact_id: str, may_order: bool) -> dict:
    """Give a contact the right to order for the hirer, or take it."""
    contact = await _record(call, contact_id, "CP")
    if contact["may_order"] == may_order or contact["owner"]:
        raise Refused(f"Contact {contact_id} has that right as it is, or owns the account.")
    await _set(call, contact_id, "may_order", may_order)
    return {"contact_id": contact_id, "may_order": may_order}


@tool(WRITE)
async def flag_missing(call: Call, hire_id: str, police_reference: str) -> dict:
    """Flag the machine of a hire as missing, with the reference of the police; the hire becomes `stolen`."""
    hire = await _in_status(call, hire_id, "on_hire")
    query = "UPDATE machines SET state = 'missing', police_ref = %s WHERE machine_id = %s"
    await call.db.execute(query, (police_reference, hire["machine_id"]))
    await _set(call, hire_id, "status", "stolen")
    return {"hire_id": hire_id, "machine_id": hire["machine_id"], "state": "missing"}


@tool(WRITE)
async def ask_branch_manager(call: Call, matter: Matter, record: str, amount: float) -> dict:
    """Ask the branch manager to clear an amount for a hire, or for a hirer's `credit_limit`. Answers `granted` or `pending`."""
    row = await _record(call, record, "HR" if matter == "credit_limit" else "RH")
    money, currency = _money(amount), row.get("currency") or await _currency(call, record)
    decision = "granted" if money <= MANAGER_LIMIT[currency] else "pending"
    new = await _add(call, "MC", matter, record, money, decision, call.now)
    return {"clearance_id": new, "decision": decision, "amount": money}


@tool(WRITE)
async def send_hire_notice(call: Call, contact_id: str, notice: Notice, record: str) -> dict:
    """Send a contact a written notice about a hire, hirer, contact or invoice."""
    await _record(call, record, *ABOUT)
    return {"notice_id": await _add(call, "HN", contact_id, notice, record, call.now)}


@tool(WRITE)
async def write_hire_log(call: Call, record: str, entry: Entry, detail: str) -> dict:
    """Write into the auditors' log about a hire, hirer, contact or invoice; `detail` is one sentence."""
    await _record(call, record, *ABOUT)
    return {"entry_id": await _add(call, "HL", record, entry, detail, call.now)}


@tool(WRITE)
async def escalate_matter(call: Call, contact_id: str, team: Team, record: str, note: str) -> dict:
    """Pass a caller's matter on to another team, with the hire, hirer, contact or invoice it is about; `note` is one sentence."""
    await _record(call, record, *ABOUT)
    return {"matter_id": await _add(call, "EM", contact_id, team, record, note, call.now)}


async def _all(call: Call, query: LiteralString, *values: Any) -> list[Row]:
    await call.db.execute(query, values)
    return await call.db.fetchall()


async def _set(call: Call, record_id: str, column: LiteralString, value: Any) -> None:
    table, key, _ = TABLES[record_id[:2]]
    await call.db.execute(f"UPDATE {table} SET {column} = %s WHERE {key} = %s", (value, record_id))


async def _record(call: Call, record_id: str, *kinds: str) -> Row:
    """The row of a record whose id begins with one of these letters."""
    if record_id[:2] not in kinds:
        raise Refused(f"{record_id} is no {' or '.join(TABLES[kind][2] for kind in kinds)}.")
    table, key, name = TABLES[record_id[:2]]
    rows = await _all(call, f"SELECT * FROM {table} WHERE {key} = %s", record_id)
    if not rows:
        raise Refused(f"There is no {name} {record_id}.")
    return rows[0]


async def _in_status(call: Call, hire_id: str, *statuses: str) -> Row:
    hire = await _record(call, hire_id, "RH")
    if hire["status"] not in statuses:
        raise Refused(f"Hire {hire_id} is {hire['status']}.")
    return hire


async def _free(call: Call, depot: str, kind: str, first: date, last: date) -> list[Row]:
    # A machine that is overdue is out today, too, whatever its hire says.
    query = "SELECT machine_id, tested_until, sticker FROM machines m WHERE depot = %s AND class"
    query += " = %s AND state = 'ready' AND NOT EXISTS (SELECT FROM hires h WHERE h.machine_id ="
    query += " m.machine_id AND status IN ('reserved', 'on_hire') AND starts_on <= %s AND"
    query += " CASE status WHEN 'on_hire' THEN greatest(ends_on, %s) ELSE ends_on END >= %s)"
    span = (last, call.now.date(), first)
    return await _all(call, f"{query} ORDER BY machine_id", depot, kind, *span)


async def _rate_if_free(call: Call, machine_id: str, first: date, last: date) -> Decimal:
    machine = await _record(call, machine_id, "MX")
    place = (machine["depot"], machine["class"])
    if machine_id not in [row["machine_id"] for row in await _free(call, *place, first, last)]:
        raise Refused(f"Machine {machine_id} is not free from {first} to {last}.")
    query = "SELECT day_rate FROM class_rates WHERE depot = %s AND class = %s"
    return (await _all(call, query, *place))[0]["day_rate"]


async def _slot(call: Call, hire_id: str, run_day: date, half: str, more: int) -> None:
    """Give a half-day's truck so many runs more; below zero takes one, Refused where none is left."""
    query = "UPDATE truck_slots SET left_free = left_free + %s WHERE run_day = %s AND half = %s AND"
    query += " left_free + %s >= 0 AND depot = (SELECT depot FROM hires JOIN machines USING"
    await call.db.execute(f"{query} (machine_id) WHERE hire_id = %s)", (more, run_day, half, more, hire_id))  # fmt: skip
    if more < 0 and not call.db.rowcount:
        raise Refused(f"No truck has room on {run_day} ({half}).")


async def _post(call: Call, hire_id: str, item: str, amount: Decimal, *why: str | None) -> Row:
    """Add a charge; `why` is reason, damage item and clearance, in so far as it has them."""
    full = (*why, None, None, None)[:3]
    new = await _add(call, "HC", hire_id, item, amount, call.now.date(), *full, call.now)
    return {"charge_id": new, "hire_id": hire_id, "item": item, "amount": amount}


async def _cleared(
    call: Call, clearance_id: str, matter: str, hire_id: str, amount: Decimal
) -> None:
    given = await _record(call, clearance_id, "MC")
    asked = (given["matter"], given["record"], given["decision"])
    if asked != (matter, hire_id, "granted") or amount > given["amount"]:
        raise Refused(f"{clearance_id} does not clear {amount} ({matter}) for {hire_id}.")


async def _currency(call: Call, hire_id: str) -> str:
    query = (
        "SELECT currency FROM hires JOIN machines USING (machine_id) JOIN hire_depots USING (depot)"
    )
    return (await _all(call, f"{query} WHERE hire_id = %s", hire_id))[0]["currency"]


async def _log(call: Call, record: str) -> list[Row]:
    query = "SELECT entry, detail, at FROM hire_log WHERE record = %s ORDER BY at, entry_id"
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
