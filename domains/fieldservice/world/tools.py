"""The service desk's tools.

They enforce what the database must never hold: unknown ids, a slot given twice, stock below zero, a credit
above its invoice, an approval used for something else. What the policy asks of the agent (coverage, notice,
certificates, limits, journal, notices) they leave to the agent.
"""

from datetime import date
from decimal import Decimal
from typing import Any, Literal, LiteralString

from env_server.toolkit import READ, WRITE, Call, Refused, tool

Region = Literal["bodensee", "thurgau", "vorarlberg"]
Half = Literal["am", "pm"]
JobKind = Literal["warranty", "contract", "chargeable", "inspection", "emergency"]
Priority = Literal["normal", "urgent"]
UnitStatus = Literal["in_service", "isolated", "retired"]
Topic = Literal["credit", "part", "due_date", "contract_end"]
CreditReason = Literal["covered", "overbilled", "late_response", "goodwill"]
Template = Literal[
    "visit_booked", "visit_moved", "visit_cancelled", "emergency_booked",
    "credit_note", "due_date_moved", "contract_ended",
]  # fmt: skip
JournalAction = Literal[
    "safety", "safety_cleared", "returned_to_service", "cancelled",
    "credited", "notice_given", "remark",
]  # fmt: skip
Desk = Literal[
    "account_security", "authorisation", "credit_hold", "dispatch",
    "late_cancellation", "purchasing", "collections", "other",
]  # fmt: skip

OFFICE_LIMIT = {
    "credit": Decimal(600), "part": Decimal(900),
    "due_date": Decimal(2000), "contract_end": Decimal(700),
}  # fmt: skip
"""Approvals up to here are granted at once; above, the office decides later."""
REFERENCES: dict[str, LiteralString] = {
    "J": "jobs",
    "I": "invoices",
    "M": "contracts",
    "U": "units",
}
"""What a reference may name, by its first letter."""


@tool(READ)
async def find_contact(call: Call, email: str) -> dict:
    """Find a contact by email address: who it is, for which customer, and whether they may order."""
    rows = await _all(
        call,
        "SELECT contact_id, contacts.name, role, may_order, phone, customer_id,"
        " customers.name AS customer, customers.kind, currency, credit_hold"
        " FROM contacts JOIN customers USING (customer_id) WHERE email = lower(%s)",
        email.strip(),
    )
    if not rows:
        raise Refused(f"No contact has the email address {email}.")
    return rows[0]


@tool(READ)
async def get_customer(call: Call, customer_id: str) -> dict:
    """Show a customer with contacts, sites, units and contracts."""
    customer = await _row(call, "customers", "customer_id", customer_id)
    sites = await _all(
        call,
        "SELECT site_id, street, city, unit_id, units.kind, model, status FROM sites"
        " LEFT JOIN units USING (site_id) WHERE customer_id = %s ORDER BY site_id, unit_id",
        customer_id,
    )
    query = (
        "SELECT contact_id, name, role, may_order FROM contacts WHERE customer_id = %s ORDER BY 1"
    )
    contacts = await _all(call, query, customer_id)
    query = "SELECT contract_id, plan, starts_on, ends_on FROM contracts WHERE customer_id = %s"
    contracts = await _all(call, f"{query} ORDER BY 1", customer_id)
    return {**customer, "contacts": contacts, "units": sites, "contracts": contracts}


@tool(READ)
async def get_unit(call: Call, unit_id: str) -> dict:
    """Show a unit: model, warranty, status, its site with region, its contract, jobs and journal."""
    unit = await _row(call, "units", "unit_id", unit_id)
    site = await _row(call, "sites", "site_id", unit["site_id"])
    jobs = await _all(
        call,
        "SELECT job_id, kind, priority, jobs.status, description, reported_at, day, half FROM jobs"
        " LEFT JOIN slots USING (job_id) WHERE unit_id = %s ORDER BY reported_at, job_id",
        unit_id,
    )
    contract = None
    if unit["contract_id"] is not None:
        contract = await _row(call, "contracts", "contract_id", unit["contract_id"])
    journal = await _journal(call, unit_id)
    return {**unit, "site": site, "contract": contract, "jobs": jobs, "journal": journal}


@tool(READ)
async def get_job(call: Call, job_id: str) -> dict:
    """Show a job: unit, customer, visit, reserved or used parts, invoice and journal."""
    rows = await _all(
        call,
        "SELECT jobs.*, customer_id, model, region, technician_id, day, half, invoice_id FROM jobs"
        " JOIN units USING (unit_id) JOIN sites USING (site_id) LEFT JOIN slots USING (job_id)"
        " LEFT JOIN invoices USING (job_id) WHERE job_id = %s",
        job_id,
    )
    if not rows:
        raise Refused(f"There is no job {job_id}.")
    parts = await _all(
        call,
        "SELECT part_id, name, quantity, unit_price FROM job_parts JOIN parts USING (part_id)"
        " WHERE job_id = %s ORDER BY part_id",
        job_id,
    )
    return {**rows[0], "parts": parts, "journal": await _journal(call, job_id)}


@tool(READ)
async def get_invoice(call: Call, invoice_id: str) -> dict:
    """Show an invoice: amounts in its own currency, dates, its job, and earlier credits."""
    invoice = await _row(call, "invoices", "invoice_id", invoice_id)
    query = "SELECT credit_id, amount, reason FROM credits WHERE invoice_id = %s ORDER BY 1"
    credits = await _all(call, query, invoice_id)
    return {**invoice, "credits": credits, "journal": await _journal(call, invoice_id)}


@tool(READ)
async def get_contract(call: Call, contract_id: str) -> dict:
    """Show a contract: plan, fee, visits a year, response hours, dates, its units and their jobs of 2026."""
    contract = await _row(call, "contracts", "contract_id", contract_id)
    query = "SELECT unit_id, kind, model, status FROM units WHERE contract_id = %s ORDER BY 1"
    units = await _all(call, query, contract_id)
    jobs = await _all(
        call,
        "SELECT job_id, unit_id, jobs.kind, jobs.status, reported_at FROM jobs JOIN units USING"
        " (unit_id) WHERE contract_id = %s AND reported_at >= '2026-01-01' ORDER BY 1",
        contract_id,
    )
    return {**contract, "units": units, "jobs": jobs}


@tool(READ)
async def find_slots(call: Call, region: Region, day: date) -> dict:
    """List the free half-days of technicians in a region on a day (YYYY-MM-DD), with certificates."""
    rows = await _all(
        call,
        "SELECT half, technician_id, name, gas, refrigerant FROM slots JOIN technicians USING"
        " (technician_id) WHERE region = %s AND day = %s AND job_id IS NULL AND NOT on_leave"
        " ORDER BY half, technician_id",
        region,
        day,
    )
    return {"day": day, "free": rows}


@tool(READ)
async def find_parts(call: Call, model: str) -> dict:
    """List the parts that fit a model, with price in euros and stock."""
    query = "SELECT part_id, name, price, stock FROM parts WHERE %s = ANY (fits) ORDER BY part_id"
    rows = await _all(call, query, model)
    if not rows:
        raise Refused(f"No part is listed for the model {model}.")
    return {"parts": rows}


@tool(WRITE)
async def open_job(
    call: Call, unit_id: str, contact_id: str, kind: JobKind, priority: Priority, description: str
) -> dict:
    """Open a job on a unit for the contact who reports it. It has no visit yet; book one with book_visit."""
    await _row(call, "units", "unit_id", unit_id)
    await _row(call, "contacts", "contact_id", contact_id)
    job_id = await _next_id(call, "jobs", "job_id", "J")
    await call.db.execute(
        "INSERT INTO jobs VALUES (%s, %s, %s, %s, %s, 'open', %s, %s, NULL)",
        (job_id, unit_id, contact_id, kind, priority, _text(description), call.now),
    )
    return {"job_id": job_id, "kind": kind, "status": "open"}


@tool(WRITE)
async def book_visit(call: Call, job_id: str, technician_id: str, day: date, half: Half) -> dict:
    """Give a free half-day of a technician to a job; a visit that it had before is given up."""
    await _pending(call, job_id)
    await call.db.execute("UPDATE slots SET job_id = NULL WHERE job_id = %s", (job_id,))
    await call.db.execute(
        "UPDATE slots SET job_id = %s WHERE technician_id = %s AND day = %s AND half = %s"
        " AND job_id IS NULL AND NOT on_leave AND day >= %s",
        (job_id, technician_id, day, half, call.now.date()),
    )
    if not call.db.rowcount:
        raise Refused(f"{technician_id} is not free on {day} {half}.")
    await call.db.execute("UPDATE jobs SET status = 'scheduled' WHERE job_id = %s", (job_id,))
    return {"job_id": job_id, "technician_id": technician_id, "day": day, "half": half}


@tool(WRITE)
async def cancel_job(call: Call, job_id: str) -> dict:
    """Cancel an open or scheduled job; its visit becomes free and reserved parts return to stock."""
    await _pending(call, job_id)
    await call.db.execute("UPDATE slots SET job_id = NULL WHERE job_id = %s", (job_id,))
    await call.db.execute(
        "UPDATE parts SET stock = stock + quantity FROM job_parts"
        " WHERE job_parts.part_id = parts.part_id AND job_id = %s",
        (job_id,),
    )
    await call.db.execute("DELETE FROM job_parts WHERE job_id = %s", (job_id,))
    await call.db.execute("UPDATE jobs SET status = 'cancelled' WHERE job_id = %s", (job_id,))
    return {"job_id": job_id, "status": "cancelled"}


@tool(WRITE)
async def set_unit_status(call: Call, unit_id: str, status: UnitStatus) -> dict:
    """Say whether a unit is in service, isolated (shut off for safety) or retired."""
    unit = await _row(call, "units", "unit_id", unit_id)
    if unit["status"] == status:
        raise Refused(f"Unit {unit_id} is {status} already.")
    await call.db.execute("UPDATE units SET status = %s WHERE unit_id = %s", (status, unit_id))
    return {"unit_id": unit_id, "status": status}


@tool(WRITE)
async def reserve_part(call: Call, job_id: str, part_id: str, quantity: int) -> dict:
    """Take a quantity of a part from stock for an open or scheduled job, at today's price."""
    await _pending(call, job_id)
    part = await _row(call, "parts", "part_id", part_id)
    if not 0 < quantity <= part["stock"]:
        raise Refused(f"{part['stock']} of {part_id} are in stock; {quantity} cannot be reserved.")
    await call.db.execute(
        "UPDATE parts SET stock = stock - %s WHERE part_id = %s", (quantity, part_id)
    )
    await call.db.execute(
        "INSERT INTO job_parts VALUES (%s, %s, %s, %s) ON CONFLICT (job_id, part_id)"
        " DO UPDATE SET quantity = job_parts.quantity + excluded.quantity",
        (job_id, part_id, quantity, part["price"]),
    )
    return {"job_id": job_id, "part_id": part_id, "reserved": quantity, "unit_price": part["price"]}


@tool(WRITE)
async def request_approval(call: Call, topic: Topic, reference: str, amount: float) -> dict:
    """Ask the office to approve an amount for an invoice, job or contract. Answers `granted` or `pending`."""
    await _reference(call, reference)
    money = _money(amount)
    status = "granted" if money <= OFFICE_LIMIT[topic] else "pending"
    approval_id = await _next_id(call, "approvals", "approval_id", "A")
    await call.db.execute(
        "INSERT INTO approvals VALUES (%s, %s, %s, %s, %s, %s)",
        (approval_id, topic, reference, money, status, call.now),
    )
    return {"approval_id": approval_id, "status": status, "amount": money}


@tool(WRITE)
async def credit_invoice(
    call: Call, invoice_id: str, amount: float, reason: CreditReason, approval_id: str | None = None
) -> dict:
    """Credit an amount of an invoice, in the invoice's currency, citing an approval where one is needed."""
    invoice = await _row(call, "invoices", "invoice_id", invoice_id)
    money = _money(amount)
    query = "SELECT coalesce(sum(amount), 0) AS total FROM credits WHERE invoice_id = %s"
    earlier = await _all(call, query, invoice_id)
    if earlier[0]["total"] + money > invoice["amount"]:
        raise Refused(
            f"{money} is too much: {earlier[0]['total']} of {invoice['amount']} is credited."
        )
    if approval_id is not None:
        approval = await _row(call, "approvals", "approval_id", approval_id)
        asked = (approval["topic"], approval["reference"], approval["amount"], approval["status"])
        if asked != ("credit", invoice_id, money, "granted"):
            raise Refused(f"{approval_id} does not grant a credit of {money} on {invoice_id}.")
    credit_id = await _next_id(call, "credits", "credit_id", "R")
    await call.db.execute(
        "INSERT INTO credits VALUES (%s, %s, %s, %s, %s, %s)",
        (credit_id, invoice_id, money, reason, approval_id, call.now),
    )
    return {"credit_id": credit_id, "invoice_id": invoice_id, "amount": money}


@tool(WRITE)
async def move_due_date(call: Call, invoice_id: str, due_on: date) -> dict:
    """Give an open invoice a later due date (YYYY-MM-DD)."""
    invoice = await _row(call, "invoices", "invoice_id", invoice_id)
    if invoice["status"] != "open" or due_on <= invoice["due_on"]:
        raise Refused(
            f"Invoice {invoice_id} is {invoice['status']} and due on {invoice['due_on']}."
        )
    await call.db.execute(
        "UPDATE invoices SET due_on = %s WHERE invoice_id = %s", (due_on, invoice_id)
    )
    return {"invoice_id": invoice_id, "due_on": due_on}


@tool(WRITE)
async def end_contract(call: Call, contract_id: str, ends_on: date) -> dict:
    """Let a running contract end on a day (YYYY-MM-DD)."""
    contract = await _row(call, "contracts", "contract_id", contract_id)
    if contract["ends_on"] is not None or ends_on < call.now.date():
        raise Refused(
            f"Contract {contract_id} ends on {contract['ends_on'] or 'no day in the past'}."
        )
    await call.db.execute(
        "UPDATE contracts SET ends_on = %s WHERE contract_id = %s", (ends_on, contract_id)
    )
    return {"contract_id": contract_id, "ends_on": ends_on}


@tool(WRITE)
async def notify(call: Call, contact_id: str, template: Template, reference: str) -> dict:
    """Send a contact a notice about a job, invoice or contract."""
    await _row(call, "contacts", "contact_id", contact_id)
    await _reference(call, reference)
    new = await _next_id(call, "notifications", "notification_id", "N")
    await call.db.execute(
        "INSERT INTO notifications VALUES (%s, %s, %s, %s, %s)",
        (new, contact_id, template, reference, call.now),
    )
    return {"notification_id": new, "template": template}


@tool(WRITE)
async def write_journal(call: Call, reference: str, action: JournalAction, detail: str) -> dict:
    """Write an entry in the journal of a unit, job, invoice or contract; `detail` is one sentence."""
    await _reference(call, reference)
    new = await _next_id(call, "journal", "entry_id", "L")
    await call.db.execute(
        "INSERT INTO journal VALUES (%s, %s, %s, %s, %s)",
        (new, reference, action, _text(detail), call.now),
    )
    return {"entry_id": new, "action": action}


@tool(WRITE)
async def escalate(call: Call, contact_id: str, topic: Desk, reference: str, note: str) -> dict:
    """Hand a matter of a contact to colleagues, with the unit, job, invoice or contract it is about."""
    await _row(call, "contacts", "contact_id", contact_id)
    await _reference(call, reference)
    new = await _next_id(call, "escalations", "escalation_id", "X")
    await call.db.execute(
        "INSERT INTO escalations VALUES (%s, %s, %s, %s, %s, %s)",
        (new, contact_id, topic, reference, _text(note), call.now),
    )
    return {"escalation_id": new, "topic": topic}


async def _all(call: Call, query: LiteralString, *values: Any) -> list[dict[str, Any]]:
    await call.db.execute(query, values)
    return await call.db.fetchall()


async def _row(call: Call, table: LiteralString, key: LiteralString, value: str) -> dict[str, Any]:
    rows = await _all(call, f"SELECT * FROM {table} WHERE {key} = %s", value)
    if not rows:
        raise Refused(f"There is no {table.removesuffix('s')} {value}.")
    return rows[0]


async def _reference(call: Call, reference: str) -> None:
    table = REFERENCES.get(reference[:1])
    if table is None:
        raise Refused(f"{reference} is no unit, job, invoice or contract.")
    await _row(call, table, f"{table.removesuffix('s')}_id", reference)


async def _journal(call: Call, reference: str) -> list[dict[str, Any]]:
    query = "SELECT action, detail, at FROM journal WHERE reference = %s ORDER BY at, entry_id"
    return await _all(call, query, reference)


async def _pending(call: Call, job_id: str) -> None:
    job = await _row(call, "jobs", "job_id", job_id)
    if job["status"] not in ("open", "scheduled"):
        raise Refused(f"Job {job_id} is {job['status']}.")


def _text(value: str) -> str:
    if not value.strip():
        raise Refused("The text must not be empty.")
    return value.strip()


def _money(amount: float) -> Decimal:
    value = Decimal(str(amount))
    if not value.is_finite() or not 0 < value < 1_000_000 or value != round(value, 2):
        raise Refused("The amount must be above zero, below a million, with at most two decimals.")
    return round(value, 2)


async def _next_id(call: Call, table: LiteralString, column: LiteralString, prefix: str) -> str:
    # From the rows, not a sequence: a refused call must not shift the ids of later ones.
    query = f"SELECT coalesce(max(substr({column}, 3)::integer), 0) + 1 AS next FROM {table}"
    return f"{prefix}-{(await _all(call, query))[0]['next']}"
