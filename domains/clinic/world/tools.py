"""The appointments desk's tools.

They refuse what the database must never hold: two visits in one slot, somebody else's letter, more off a fee than the fee.
What the policy asks (who may ask, notice, letters, queues, decisions, reminders, audit, messages) they leave to the agent.
"""

from datetime import date
from decimal import Decimal
from typing import Any, Literal, LiteralString

from env_server.toolkit import READ, WRITE, Call, Refused, tool

Site = Literal["NWY", "DLK"]
Specialty = Literal["dermatology", "cardiology", "orthopaedics", "ent", "physiotherapy", "dietetics"]  # fmt: skip
VisitType = Literal[
    "derm_first", "derm_review", "cardio_first", "cardio_review", "echo_test", "ortho_first", "ortho_review",
    "ent_first", "ent_review", "hearing_test", "physio_session", "diet_first", "diet_review",
]  # fmt: skip
Payer = Literal["self", "insurer"]
Language = Literal["polish", "lithuanian", "ukrainian", "arabic", "portuguese", "romanian", "none"]  # fmt: skip
How = Literal["cancelled", "cancelled_late", "cancelled_by_clinic"]
Priority = Literal["routine", "urgent"]
Channel = Literal["sms", "email", "call"]
WaiverReason = Literal["clinic_fault", "hospital", "duplicate", "wrong_amount", "bereavement", "goodwill"]  # fmt: skip
ContactDetail = Literal["email", "phone", "address", "channel"]
Relation = Literal["parent", "child", "partner", "carer", "friend"]
Desk = Literal["duty_nurse", "privacy", "records", "access", "billing", "triage", "other"]
Trace = Literal[
    "booked", "moved", "cancelled", "fee_raised", "fee_waived", "waiting_joined", "waiting_left",
    "authorisation_asked", "payer_changed", "interpreter_set", "contact_changed", "proxy_changed",
]  # fmt: skip
DECIDED_AT_ONCE = {"waiver": Decimal(150), "further_move": Decimal(3), "series": Decimal(8)}
"""The clinical lead approves at once up to here; above, later."""
TABLES: dict[str, tuple[LiteralString, LiteralString]] = {
    "PT": ("patients", "patient_id"), "AP": ("appointments", "appointment_id"), "FE": ("visit_fees", "fee_id"),
    "RL": ("referral_letters", "referral_id"), "WL": ("waiting_entries", "waiting_id"), "SL": ("clinic_slots", "slot_id"),
    "PX": ("patient_proxies", "proxy_id"), "AU": ("cover_authorisations", "authorisation_id"),
    "LD": ("lead_decisions", "decision_id"), "WV": ("fee_waivers", "waiver_id"), "MS": ("patient_messages", "message_id"),
    "AD": ("audit_entries", "audit_id"), "EC": ("escalated_cases", "case_id"),
}  # fmt: skip
"""By the letters of an id; the first five are what audit, messages, decisions and cases may be about."""


@tool(READ)
async def find_patient(call: Call, email: str) -> dict:
    """Find whom the person with an email address may speak for: the patient of that address, and patients whose proxy it is."""
    address = email.strip().lower()
    own = await _all(call, "SELECT patient_id, name FROM patients WHERE email = %s", address)
    query = "SELECT patient_id, patients.name, born_on, proxy_id, px.name AS proxy, relation, scope, until, ended FROM"
    query += " patient_proxies AS px JOIN patients USING (patient_id) WHERE px.email = %s ORDER BY proxy_id"
    proxied = await _all(call, query, address)
    if not own and not proxied:
        raise Refused(f"Nobody with the address {address} is known here.")
    return {"patient": own[0] if own else None, "proxy_of": proxied}


@tool(READ)
async def show_patient(call: Call, patient_id: str) -> dict:
    """Show a patient: data, insurer, proxies, letters, authorisations, visits, waiting entries, fees and audit."""
    found = await _row(call, *TABLES["PT"], patient_id)
    parts: dict[str, LiteralString] = {
        "insurer": "SELECT insurers.* FROM insurers JOIN patients USING (insurer_id)",
        "proxies": "SELECT * FROM patient_proxies",
        "letters": "SELECT * FROM referral_letters",
        "authorisations": "SELECT * FROM cover_authorisations",
        "visits": "SELECT * FROM visits",
        "waiting": "SELECT * FROM waiting_entries",
        "fees": "SELECT visit_fees.* FROM visit_fees JOIN appointments USING (appointment_id)",
    }
    return {**found, **await _parts(call, parts, "patient_id", patient_id)}


@tool(READ)
async def show_appointment(call: Call, appointment_id: str) -> dict:
    """Show a visit: type, clinician, day and hour, house, payer, letter, moves, status, reminder, interpreter, fees, audit."""
    visit = await _row(call, "visits", "appointment_id", appointment_id)
    parts: dict[str, LiteralString] = {
        "reminder": "SELECT day, channel, status FROM visit_reminders",
        "interpreter": "SELECT language, day FROM interpreter_bookings",
        "fees": "SELECT fee_id, kind, currency, amount, charged_on, status FROM visit_fees",
    }
    return {**visit, **await _parts(call, parts, "appointment_id", appointment_id)}


@tool(READ)
async def show_fee(call: Call, fee_id: str) -> dict:
    """Show a fee: kind, amount in its own currency, day, status, its visit, earlier waivers and audit."""
    fee = await _row(call, *TABLES["FE"], fee_id)
    visit = await _row(call, "visits", "appointment_id", fee["appointment_id"])
    more = await _parts(call, {"waivers": "SELECT * FROM fee_waivers"}, "fee_id", fee_id)
    return {**fee, "visit": visit, **more}


@tool(READ)
async def list_visit_types(call: Call, specialty: Specialty) -> dict:
    """List the visit types of a specialty: kind, minutes, price in Newry (GBP) and in Dundalk (EUR)."""
    query = "SELECT visit_type, kind, minutes, price_gbp, price_eur FROM visit_types"
    return {"visit_types": await _all(call, f"{query} WHERE specialty = %s ORDER BY 1", specialty)}


@tool(READ)
async def list_free_slots(call: Call, visit_type: VisitType, site: Site, first_day: date, last_day: date) -> dict:  # fmt: skip
    """List the free slots for a visit type at a house from one day to another (YYYY-MM-DD), at most 40, with clinician and grade."""
    kind = await _row(call, "visit_types", "visit_type", visit_type)
    rows = await _all(call,
        "SELECT slot_id, day, starts, minutes, held_for, name AS clinician, grade FROM clinic_slots JOIN clinicians"
        " USING (clinician_id) WHERE specialty = %s AND site = %s AND day BETWEEN %s AND %s AND day > %s"
        " AND minutes >= %s AND NOT EXISTS (SELECT FROM appointments WHERE appointments.slot_id = clinic_slots.slot_id"
        " AND status IN ('booked', 'completed', 'no_show')) ORDER BY day, starts, name LIMIT 40",
        kind["specialty"], site, first_day, last_day, call.now.date(), kind["minutes"],
    )  # fmt: skip
    return {"free": rows}


@tool(READ)
async def show_waiting_list(call: Call, visit_type: VisitType, site: Site) -> dict:
    """Show who waits for a visit type at a house, by the number of the entry: priority, since when, patient id."""
    query = "SELECT waiting_id, patient_id, priority, since FROM waiting_entries WHERE status = 'waiting' AND"
    return {"waiting": await _all(call, f"{query} visit_type = %s AND site = %s ORDER BY waiting_id", visit_type, site)}  # fmt: skip


@tool(WRITE)
async def book_appointment(call: Call, patient_id: str, visit_type: VisitType, slot_id: str, payer: Payer, referral_id: str | None = None, authorisation_id: str | None = None) -> dict:  # fmt: skip
    """Book a free slot for a patient's visit, naming its letter and the insurer's authorisation where there is one."""
    await _fits(call, visit_type, slot_id)
    await _own(call, referral_id, patient_id)
    await _covers(call, authorisation_id, patient_id, visit_type)
    row = (patient_id, visit_type, slot_id, payer, referral_id, authorisation_id, 0, "booked", None)
    return {"appointment_id": await _new(call, "AP", *row), "slot_id": slot_id}


@tool(WRITE)
async def move_appointment(call: Call, appointment_id: str, slot_id: str, decision_id: str | None = None) -> dict:  # fmt: skip
    """Move a booked visit to a free slot, citing a decision where one is needed. Its reminder is dropped, an interpreter is not."""
    visit = await _booked(call, appointment_id)
    await _fits(call, visit["visit_type"], slot_id)
    await _decided(call, decision_id, "further_move", appointment_id, Decimal(visit["moves"] + 1))
    query = "UPDATE appointments SET slot_id = %s, moves = moves + 1 WHERE appointment_id = %s"
    await call.db.execute(query, (slot_id, appointment_id))
    await _drop(call, "visit_reminders", appointment_id)
    return {"appointment_id": appointment_id, "slot_id": slot_id, "moves": visit["moves"] + 1}


@tool(WRITE)
async def cancel_appointment(call: Call, appointment_id: str, how: How) -> dict:
    """Cancel a booked visit: in time, late, or by the clinic. Slot and reminder are given up; fees and interpreters stay as they are."""
    await _booked(call, appointment_id)
    await _set(call, appointment_id, "status", how)
    await _drop(call, "visit_reminders", appointment_id)
    return {"appointment_id": appointment_id, "status": how}


@tool(WRITE)
async def set_reminder(call: Call, appointment_id: str, day: date, channel: Channel) -> dict:
    """Plan the reminder of a booked visit for a day (YYYY-MM-DD); one that was planned before is replaced."""
    await _booked(call, appointment_id)
    if day <= call.now.date():
        raise Refused(f"{day} is not after today.")
    await _drop(call, "visit_reminders", appointment_id)
    await _add(call, "visit_reminders", appointment_id, day, channel, "planned")
    return {"appointment_id": appointment_id, "day": day, "channel": channel}


@tool(WRITE)
async def set_interpreter(call: Call, appointment_id: str, language: Language) -> dict:
    """Engage an interpreter for the day of a visit, instead of an earlier one; `none` sends an interpreter off."""
    visit = await _row(call, "visits", "appointment_id", appointment_id)
    await _drop(call, "interpreter_bookings", appointment_id)
    if language != "none":
        await _booked(call, appointment_id)
        await _add(call, "interpreter_bookings", appointment_id, language, visit["day"])
    return {"appointment_id": appointment_id, "language": language, "day": visit["day"]}


@tool(WRITE)
async def set_payer(call: Call, appointment_id: str, payer: Payer, authorisation_id: str | None = None) -> dict:  # fmt: skip
    """Say who pays for a booked visit, with the insurer's authorisation where there is one."""
    visit = await _booked(call, appointment_id)
    await _covers(call, authorisation_id, visit["patient_id"], visit["visit_type"])
    query = "UPDATE appointments SET payer = %s, authorisation_id = %s WHERE appointment_id = %s"
    await call.db.execute(query, (payer, authorisation_id, appointment_id))
    return {"appointment_id": appointment_id, "payer": payer}


@tool(WRITE)
async def request_authorisation(call: Call, patient_id: str, visit_type: VisitType) -> dict:
    """Ask a patient's insurer to authorise one visit; the answer takes some days."""
    patient = await _row(call, *TABLES["PT"], patient_id)
    if patient["insurer_id"] is None:
        raise Refused(f"{patient_id} has no insurer.")
    row = (patient_id, visit_type, 1, call.now.date(), patient["cover_until"], "asked")
    return {"authorisation_id": await _new(call, "AU", *row), "status": "asked"}


@tool(WRITE)
async def raise_visit_fee(call: Call, appointment_id: str, kind: Literal["late_cancel", "no_show"], amount: float) -> dict:  # fmt: skip
    """Charge a fee for a visit that was cancelled late or missed, in the currency of its house."""
    visit = await _row(call, "visits", "appointment_id", appointment_id)
    if visit["status"] in ("booked", "completed", "cancelled"):
        raise Refused(f"{appointment_id} is {visit['status']}; there is no fee for that.")
    money = _money(amount)
    row = (appointment_id, kind, visit["currency"], money, call.now.date(), "open")
    return {"fee_id": await _new(call, "FE", *row), "amount": money, "currency": visit["currency"]}


@tool(WRITE)
async def waive_visit_fee(call: Call, fee_id: str, amount: float, reason: WaiverReason, decision_id: str | None = None) -> dict:  # fmt: skip
    """Take an amount off a fee, in the fee's currency, citing a decision where one is needed; of a paid fee it is paid back."""
    fee, money = await _row(call, *TABLES["FE"], fee_id), _money(amount)
    query = "SELECT coalesce(sum(amount), 0) AS total FROM fee_waivers WHERE fee_id = %s"
    total = (await _all(call, query, fee_id))[0]["total"] + money
    if total > fee["amount"]:
        raise Refused(f"{money} is too much: {total - money} of {fee['amount']} is waived.")
    await _decided(call, decision_id, "waiver", fee_id, money)
    paid = fee["status"] == "paid"
    await _new(call, "WV", fee_id, money, reason, paid, decision_id, call.now)
    if total == fee["amount"]:
        await _set(call, fee_id, "status", "waived")
    return {"fee_id": fee_id, "waived": money, "pays_back": paid}


@tool(WRITE)
async def request_lead_approval(call: Call, matter: Literal["waiver", "further_move", "series"], subject: str, amount: float) -> dict:  # fmt: skip
    """Ask the clinical lead: a waiver's sum for a fee, a move's number for a visit, a series' number of visits for a letter. `approved` or `waiting`."""
    await _subject(call, subject)
    value = _money(amount)
    answer = "approved" if value <= DECIDED_AT_ONCE[matter] else "waiting"
    new = await _new(call, "LD", matter, subject, value, answer, call.now)
    return {"decision_id": new, "answer": answer, "amount": value}


@tool(WRITE)
async def join_waiting_list(call: Call, patient_id: str, visit_type: VisitType, site: Site, priority: Priority, referral_id: str) -> dict:  # fmt: skip
    """Put a patient on the waiting list of a visit type at a house, on the strength of a letter."""
    await _own(call, referral_id, patient_id)
    row = (patient_id, visit_type, site, priority, referral_id, call.now.date(), "waiting")
    return {"waiting_id": await _new(call, "WL", *row), "priority": priority}


@tool(WRITE)
async def close_waiting_entry(call: Call, waiting_id: str, outcome: Literal["served", "left"]) -> dict:  # fmt: skip
    """Take an entry off the waiting list: the patient was served, or has left it."""
    entry = await _row(call, *TABLES["WL"], waiting_id)
    if entry["status"] != "waiting":
        raise Refused(f"{waiting_id} is {entry['status']} already.")
    await _set(call, waiting_id, "status", outcome)
    return {"waiting_id": waiting_id, "status": outcome}


@tool(WRITE)
async def set_contact(call: Call, patient_id: str, detail: ContactDetail, value: str) -> dict:
    """Change a patient's email, phone, address, or channel for reminders (sms, email, call)."""
    patient = await _row(call, *TABLES["PT"], patient_id)
    text = _text(value).lower() if detail in ("email", "channel") else _text(value)
    if patient[detail] == text:
        raise Refused(f"{detail} of {patient_id} is {text} already.")
    await _set(call, patient_id, detail, text)
    return {"patient_id": patient_id, detail: text}


@tool(WRITE)
async def grant_proxy(call: Call, patient_id: str, name: str, email: str, relation: Relation, scope: Literal["visits", "everything"], until: date) -> dict:  # fmt: skip
    """Let somebody speak for a patient, for visits or for everything, up to and including a day (YYYY-MM-DD)."""
    row = (patient_id, _text(name), _text(email).lower(), relation, scope, until, False)
    return {"proxy_id": await _new(call, "PX", *row), "scope": scope, "until": until}


@tool(WRITE)
async def end_proxy(call: Call, proxy_id: str) -> dict:
    """Let somebody no longer speak for a patient."""
    await _row(call, *TABLES["PX"], proxy_id)
    await _set(call, proxy_id, "ended", True)
    return {"proxy_id": proxy_id, "ended": True}


@tool(WRITE)
async def message_patient(call: Call, patient_id: str, template: Trace, subject: str) -> dict:
    """Send a patient a message about a visit, fee, letter, waiting entry, or their own record."""
    await _subject(call, subject)
    new = await _new(call, "MS", patient_id, template, subject, call.now)
    return {"message_id": new, "template": template}


@tool(WRITE)
async def write_audit(call: Call, subject: str, action: Trace, detail: str) -> dict:
    """Write what was done into the audit of a patient, visit, fee, letter or waiting entry; `detail` is one sentence."""
    await _subject(call, subject)
    new = await _new(call, "AD", subject, action, _text(detail), call.now)
    return {"audit_id": new, "action": action}


@tool(WRITE)
async def escalate_case(call: Call, patient_id: str, desk: Desk, subject: str, note: str) -> dict:
    """Hand a matter on: the patient as (or for) whom the person was found, the desk, the record it is about, a sentence."""
    await _subject(call, subject)
    new = await _new(call, "EC", patient_id, desk, subject, _text(note), call.now)
    return {"case_id": new, "desk": desk}


async def _all(call: Call, query: LiteralString, *values: Any) -> list[dict[str, Any]]:
    await call.db.execute(query, values)
    return await call.db.fetchall()


async def _row(call: Call, table: LiteralString, key: LiteralString, value: str) -> dict[str, Any]:
    rows = await _all(call, f"SELECT * FROM {table} WHERE {key} = %s", value)
    if not rows:
        raise Refused(f"There is nothing called {value} among the {table.replace('_', ' ')}.")
    return rows[0]


async def _parts(call: Call, parts: dict[str, LiteralString], key: LiteralString, value: str) -> dict[str, Any]:  # fmt: skip
    """What belongs to a record, by name, and its audit."""
    query = "SELECT action, detail, at FROM audit_entries WHERE subject = %s ORDER BY at, audit_id"
    found = {
        name: await _all(call, f"{part} WHERE {key} = %s ORDER BY 1", value)
        for name, part in parts.items()
    }
    return {**found, "audit": await _all(call, query, value)}


async def _booked(call: Call, appointment_id: str) -> dict[str, Any]:
    visit = await _row(call, "visits", "appointment_id", appointment_id)
    if visit["status"] != "booked":
        raise Refused(f"{appointment_id} is {visit['status']}.")
    return visit


async def _fits(call: Call, visit_type: str, slot_id: str) -> None:
    slot = await _row(call, *TABLES["SL"], slot_id)
    who = await _row(call, "clinicians", "clinician_id", slot["clinician_id"])
    kind = await _row(call, "visit_types", "visit_type", visit_type)
    is_apt = who["specialty"] == kind["specialty"] and slot["minutes"] >= kind["minutes"]
    if slot["day"] <= call.now.date() or not is_apt:
        raise Refused(f"{slot_id} on {slot['day']}, {who['name']}: not for {visit_type}.")


async def _own(call: Call, record: str | None, patient_id: str) -> dict[str, Any]:
    if record and record[:2] not in ("RL", "AU"):
        raise Refused(f"{record} is no letter and no authorisation.")
    found = await _row(call, *TABLES[record[:2]], record) if record else {}
    if found and found["patient_id"] != patient_id:
        raise Refused(f"{record} is not of {patient_id}.")
    return found


async def _covers(call: Call, record: str | None, patient_id: str, visit_type: str) -> None:
    found = await _own(call, record, patient_id)
    if found and (found["visit_type"], found["status"]) != (visit_type, "granted"):
        raise Refused(f"{record} is {found['status']} for {found['visit_type']}.")


async def _decided(call: Call, decision_id: str | None, matter: str, subject: str, amount: Decimal) -> None:  # fmt: skip
    if decision_id is not None:
        found = await _row(call, *TABLES["LD"], decision_id)
        asked = (found["matter"], found["subject"], found["amount"], found["answer"])
        if asked != (matter, subject, amount, "approved"):
            raise Refused(f"{decision_id} does not approve {amount} for {subject}.")


async def _subject(call: Call, subject: str) -> None:
    if subject[:2] not in ("PT", "AP", "FE", "RL", "WL"):
        raise Refused(f"{subject} is no patient, visit, fee, letter or waiting entry.")
    await _row(call, *TABLES[subject[:2]], subject)


async def _add(call: Call, table: LiteralString, *values: Any) -> None:
    await call.db.execute(f"INSERT INTO {table} VALUES (%s{', %s' * (len(values) - 1)})", values)


async def _set(call: Call, record: str, column: LiteralString, value: Any) -> None:
    table, key = TABLES[record[:2]]
    await call.db.execute(f"UPDATE {table} SET {column} = %s WHERE {key} = %s", (value, record))


async def _drop(call: Call, table: LiteralString, appointment_id: str) -> None:
    await call.db.execute(f"DELETE FROM {table} WHERE appointment_id = %s", (appointment_id,))


def _text(value: str) -> str:
    if not value.strip():
        raise Refused("The text must not be empty.")
    return value.strip()


def _money(amount: float) -> Decimal:
    value = Decimal(str(amount))
    if not value.is_finite() or not 0 < value < 100_000 or value != round(value, 2):
        raise Refused("The amount must be above zero, below 100,000, with at most two decimals.")
    return round(value, 2)


async def _new(call: Call, letters: str, *values: Any) -> str:
    """Add a row under the id after the highest one, which is returned."""
    # From the rows, not a sequence: a refused call must not shift the ids of later ones.
    table, column = TABLES[letters]
    query = f"SELECT coalesce(max(substr({column}, 4)::integer), 0) + 1 AS next FROM {table}"
    new = f"{letters}-{(await _all(call, query))[0]['next']}"
    await _add(call, table, new, *values)
    return new
