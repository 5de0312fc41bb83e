"""The billing desk's tools.

They refuse what the database must never hold: unknown ids, more money back than came in, a sign-off used for
something else, more licences than seats, two owners. What the policy asks of the agent (who may ask, notice, limits,
sign-offs, proration, ledger, log and mail) they leave to the agent.
"""

from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Literal, LiteralString

from env_server.toolkit import READ, WRITE, Call, Refused, tool

Currency = Literal["EUR", "GBP", "USD"]
Plan = Literal["starter", "team", "business", "scale"]
From = Literal["now", "renewal"]
Role = Literal["owner", "billing", "admin", "viewer"]
Detail = Literal["billing_email", "tax_id", "po_number"]
ChargeKind = Literal["seats", "plan"]
Booking = Literal["charge", "credit", "payout"]
Matter = Literal["charge", "correction", "pause", "hold", "voucher"]
Reason = Literal["double_charge", "wrong_price", "wrong_quantity", "outage", "tax", "withdrawal", "goodwill"]  # fmt: skip
Trace = Literal[
    "seats_changed", "plan_changed", "renewal_off", "renewal_on", "withdrawn", "paused",
    "licence_revoked", "credit_note", "payout", "dunning_held", "voucher_redeemed",
    "details_changed", "owner_changed",
]  # fmt: skip
"""What the log and the mails tell of."""
Team = Literal["trust", "owner_consent", "collections", "retention", "payments", "sales", "other"]

APPROVED_UP_TO = {
    "charge": Decimal(5000), "correction": Decimal(1500), "pause": Decimal(2000),
    "hold": Decimal(6000), "voucher": Decimal(40),
}  # fmt: skip
"""The head of billing answers at once up to here; above, later."""
TABLES: dict[str, tuple[LiteralString, LiteralString]] = {
    "AC": ("accounts", "account_id"), "SU": ("subscriptions", "subscription_id"), "BI": ("bills", "bill_id"),
    "PY": ("incoming_payments", "payment_id"), "ME": ("members", "member_id"), "SO": ("sign_offs", "sign_off_id"),
    "CN": ("credit_notes", "credit_note_id"), "PO": ("payouts", "payout_id"), "MA": ("outbox", "mail_id"),
    "LE": ("ledger_entries", "ledger_entry_id"), "CL": ("change_log", "change_id"), "RF": ("referrals", "referral_id"),
}  # fmt: skip
"""By the letters of an id; the first four are what logs, mails, sign-offs and referrals may be about."""
WITHOUT_OWN_TAX = ("AT", "FR", "NL")
"""Firms there pay no tax to us once their tax id is known."""


@tool(READ)
async def find_member(call: Call, email: str) -> dict:
    """Find a member by email address: name, role, whether active, and the account with its status."""
    member = await _row(call, "members", "email", email.strip().lower())
    account = await _row(call, "accounts", "account_id", member["account_id"])
    shown = ("firm", "country", "currency", "tier", "status")
    return {**member, **{f"account_{name}": account[name] for name in shown}}


@tool(READ)
async def show_account(call: Call, account_id: str) -> dict:
    """Show an account: data, members, subscriptions, all bills, and its log."""
    found = await _row(call, "accounts", "account_id", account_id)
    parts: dict[str, LiteralString] = {
        "members": "member_id, name, email, role, active FROM members",
        "subscriptions": "subscription_id, plan, cycle, seats, started_on, period_start,"
        " period_end, status, renews FROM subscriptions",
        "bills": "bill_id, subscription_id, kind, covers_from, covers_to, gross, issued_on, due_on,"
        " status FROM bills",
    }
    return {**found, **await _parts(call, parts, "account_id", account_id)}


@tool(READ)
async def show_subscription(call: Call, subscription_id: str) -> dict:
    """Show a subscription: plan, seats, price, period, licences in use, usage by month, vouchers, log."""
    found = await _row(call, "subscriptions", "subscription_id", subscription_id)
    parts: dict[str, LiteralString] = {
        "licences": "licence_id, holder, last_used_on FROM licences",
        "usage": "month, runs, included FROM usage_months",
        "vouchers": "code, redeemed_at FROM redemptions",
    }
    return {**found, **await _parts(call, parts, "subscription_id", subscription_id)}


@tool(READ)
async def show_bill(call: Call, bill_id: str) -> dict:
    """Show a bill: lines, net, tax and gross in its currency, payments, credit notes, payouts, reminders, log."""
    found = await _row(call, "bills", "bill_id", bill_id)
    parts: dict[str, LiteralString] = {
        "lines": "line, item, quantity, unit_price FROM bill_lines",
        "payments": "payment_id, amount, method, status, received_on FROM incoming_payments",
        "credit_notes": "credit_note_id, amount, reason, created_at FROM credit_notes",
        "payouts": "payout_id, payment_id, payouts.amount, reason, created_at FROM payouts"
        " JOIN incoming_payments USING (payment_id)",
        "reminders": "level, next_step_on, held_until FROM dunning_cases",
    }
    return {**found, **await _parts(call, parts, "bill_id", bill_id)}


@tool(READ)
async def show_prices(call: Call, currency: Currency) -> dict:
    """List the plans from small to large, with fewest and most seats, and list prices of a seat without tax."""
    query = "SELECT plan, min_seats, max_seats, cycle, seat_price FROM plans JOIN plan_prices USING (plan)"
    rows = await _all(call, f"{query} WHERE currency = %s ORDER BY rank, cycle", currency)
    return {"currency": currency, "plans": rows}


@tool(READ)
async def show_voucher(call: Call, code: str) -> dict:
    """Show a voucher by its exact code: percent, plan, dates, and how often it was redeemed."""
    voucher = await _row(call, "vouchers", "code", code)
    query = "SELECT count(*) AS redeemed FROM redemptions WHERE code = %s"
    return {**voucher, **(await _all(call, query, code))[0]}


@tool(WRITE)
async def change_seats(call: Call, subscription_id: str, seats: int, effective: From) -> dict:
    """Set how many seats a subscription has, `now` or from its `renewal`; charges nothing by itself."""
    found = await _running(call, subscription_id)
    if not 0 < seats <= 10_000 or seats == found["seats"]:
        raise Refused(f"{subscription_id} has {found['seats']} seats; {seats} is no change.")
    query = "SELECT licence_id FROM licences WHERE subscription_id = %s"
    if seats < (used := len(await _all(call, query, subscription_id))):
        raise Refused(f"{used} licences of {subscription_id} are in use.")
    await _set(call, subscription_id, "seats" if effective == "now" else "next_seats", seats)
    return {"subscription_id": subscription_id, "seats": seats, "effective": effective}


@tool(WRITE)
async def change_plan(call: Call, subscription_id: str, plan: Plan, effective: From) -> dict:
    """Move a subscription to another plan at its list price, `now` or from its `renewal`; charges nothing."""
    found = await _running(call, subscription_id)
    if plan == found["plan"]:
        raise Refused(f"{subscription_id} is on {plan} already.")
    await _set(call, subscription_id, "plan" if effective == "now" else "next_plan", plan)
    if effective == "now":
        query = "SELECT seat_price FROM plan_prices JOIN accounts USING (currency)"
        query += " WHERE account_id = %s AND plan = %s AND cycle = %s"
        price = await _all(call, query, found["account_id"], plan, found["cycle"])
        await _set(call, subscription_id, "seat_price", price[0]["seat_price"])
    return {"subscription_id": subscription_id, "plan": plan, "effective": effective}


@tool(WRITE)
async def revoke_licence(call: Call, licence_id: str) -> dict:
    """Take a licence from its holder, who can no longer sign in; the seat stays and is paid for."""
    licence = await _row(call, "licences", "licence_id", licence_id)
    await call.db.execute("DELETE FROM licences WHERE licence_id = %s", (licence_id,))
    return {"licence_id": licence_id, "holder": licence["holder"], "revoked": True}


@tool(WRITE)
async def set_renewal(call: Call, subscription_id: str, renews: bool) -> dict:
    """Say whether a subscription goes on after its period; without renewal it ends with the period."""
    found = await _running(call, subscription_id)
    if found["renews"] == renews:
        raise Refused(f"{subscription_id} {'renews' if renews else 'does not renew'} already.")
    await _set(call, subscription_id, "renews", renews)
    return {"subscription_id": subscription_id, "renews": renews, "period_end": found["period_end"]}


@tool(WRITE)
async def end_subscription(call: Call, subscription_id: str) -> dict:
    """End a subscription today, in the middle of its period; all its licences are gone at once."""
    await _running(call, subscription_id)
    await call.db.execute("DELETE FROM licences WHERE subscription_id = %s", (subscription_id,))
    query = "UPDATE subscriptions SET status = 'ended', renews = false, ended_on = %s WHERE subscription_id = %s"
    await call.db.execute(query, (call.now.date(), subscription_id))
    return {"subscription_id": subscription_id, "status": "ended"}


@tool(WRITE)
async def pause_subscription(call: Call, subscription_id: str, resumes_on: date) -> dict:
    """Let a subscription rest from the end of its period until a day (YYYY-MM-DD), when it goes on."""
    found = await _running(call, subscription_id)
    if found["resumes_on"] is not None or resumes_on <= found["period_end"]:
        raise Refused(f"Paid until {found['period_end']}, resting until {found['resumes_on']}.")
    await _set(call, subscription_id, "resumes_on", resumes_on)
    return {"subscription_id": subscription_id, "resumes_on": resumes_on}


@tool(WRITE)
async def issue_bill(call: Call, subscription_id: str, kind: ChargeKind, net: float) -> dict:
    """Bill an amount without tax for the rest of a subscription's period; tax is added, due by the account's terms."""
    found = await _running(call, subscription_id)
    account = await _row(call, "accounts", "account_id", found["account_id"])
    amount, rate = _money(net), account["tax_rate"]
    tax = (amount * rate / 100).quantize(Decimal("0.01"), ROUND_HALF_UP)
    today = call.now.date()
    due = today + timedelta(days=account["terms_days"])
    bill_id = await _new(
        call, "BI", found["account_id"], subscription_id, kind, today, found["period_end"],
        account["currency"], amount, rate, tax, amount + tax, today, due, "open",
    )  # fmt: skip
    item = "More seats until the period ends" if kind == "seats" else "Change of plan"
    await _add(call, "bill_lines", bill_id, 1, item, 1, amount)
    return {"bill_id": bill_id, "net": amount, "tax": tax, "gross": amount + tax}


@tool(WRITE)
async def ask_sign_off(call: Call, matter: Matter, subject: str, amount: float) -> dict:
    """Ask the head of billing to approve an amount (a voucher's percent) for a subscription or bill: `approved` or `waiting`."""
    await _subject(call, subject)
    value = _money(amount)
    answer = "approved" if value <= APPROVED_UP_TO[matter] else "waiting"
    sign_off_id = await _new(call, "SO", matter, subject, value, answer, call.now)
    return {"sign_off_id": sign_off_id, "answer": answer, "amount": value}


@tool(WRITE)
async def issue_credit_note(
    call: Call, bill_id: str, amount: float, reason: Reason, sign_off_id: str | None = None
) -> dict:
    """Take an amount with tax off a bill, in the bill's currency, citing a sign-off where one is needed."""
    bill = await _row(call, "bills", "bill_id", bill_id)
    money = _money(amount)
    earlier = await _sum(call, "credit_notes", "bill_id", bill_id)
    if earlier + money > bill["gross"]:
        raise Refused(f"{money} is too much: {earlier} of {bill['gross']} is credited.")
    await _signed(call, sign_off_id, "correction", bill_id, money)
    new = await _new(call, "CN", bill_id, money, reason, sign_off_id, call.now)
    return {"credit_note_id": new, "bill_id": bill_id, "amount": money}


@tool(WRITE)
async def pay_out(
    call: Call, payment_id: str, amount: float, reason: Reason, sign_off_id: str | None = None
) -> dict:
    """Send money of a settled payment back to where it came from, citing a sign-off for its bill where one is needed."""
    payment = await _row(call, "incoming_payments", "payment_id", payment_id)
    money = _money(amount)
    earlier = await _sum(call, "payouts", "payment_id", payment_id)
    if payment["status"] != "settled" or earlier + money > payment["amount"]:
        raise Refused(f"{payment_id}: {payment['status']}, {earlier} of it went back.")
    await _signed(call, sign_off_id, "correction", payment["bill_id"], money)
    new = await _new(call, "PO", payment_id, money, reason, sign_off_id, call.now)
    return {"payout_id": new, "payment_id": payment_id, "amount": money}


@tool(WRITE)
async def apply_voucher(
    call: Call, subscription_id: str, code: str, sign_off_id: str | None = None
) -> dict:
    """Let a voucher count for a subscription, citing a sign-off where one is needed."""
    await _running(call, subscription_id)
    voucher = await _row(call, "vouchers", "code", code)
    await _signed(call, sign_off_id, "voucher", subscription_id, Decimal(voucher["percent"]))
    await _add(call, "redemptions", subscription_id, code, sign_off_id, call.now)
    return {"subscription_id": subscription_id, "code": code, "percent": voucher["percent"]}


@tool(WRITE)
async def hold_dunning(call: Call, bill_id: str, until: date) -> dict:
    """Send no further reminder of a late bill until a day (YYYY-MM-DD)."""
    case = await _row(call, "dunning_cases", "bill_id", bill_id)
    if until <= call.now.date():
        raise Refused(f"{until} is not after today; the next step is on {case['next_step_on']}.")
    query = "UPDATE dunning_cases SET held_until = %s WHERE bill_id = %s"
    await call.db.execute(query, (until, bill_id))
    return {"bill_id": bill_id, "held_until": until}


@tool(WRITE)
async def set_billing_detail(call: Call, account_id: str, detail: Detail, value: str) -> dict:
    """Change an account's billing email, tax id or purchase order number; later bills take it over."""
    account = await _row(call, "accounts", "account_id", account_id)
    text = _text(value).lower() if detail == "billing_email" else _text(value)
    if account[detail] == text:
        raise Refused(f"{detail} of {account_id} is {text} already.")
    await _set(call, account_id, detail, text)
    if detail == "tax_id" and account["country"] in WITHOUT_OWN_TAX:
        await _set(call, account_id, "tax_rate", 0)
    return {"account_id": account_id, detail: text}


@tool(WRITE)
async def set_member_role(call: Call, member_id: str, role: Role) -> dict:
    """Give a member another role. An account has one owner: take the role from the old one first."""
    member = await _row(call, "members", "member_id", member_id)
    if member["role"] == role:
        raise Refused(f"{member_id} is {role} already.")
    await _set(call, member_id, "role", role)
    return {"member_id": member_id, "role": role}


@tool(WRITE)
async def book_ledger(call: Call, kind: Booking, bill_id: str, amount: float) -> dict:
    """Book an amount with tax that the desk charged, credited or paid out, on the bill it belongs to."""
    bill = await _row(call, "bills", "bill_id", bill_id)
    new = await _new(call, "LE", bill["account_id"], kind, bill_id, _money(amount), call.now)
    return {"ledger_entry_id": new, "kind": kind}


@tool(WRITE)
async def log_change(call: Call, subject: str, action: Trace, detail: str) -> dict:
    """Write what was done into the log of an account, subscription or bill; `detail` is one sentence."""
    await _subject(call, subject)
    new = await _new(call, "CL", subject, action, _text(detail), call.now)
    return {"change_id": new, "action": action}


@tool(WRITE)
async def send_mail(call: Call, member_id: str, template: Trace, subject: str) -> dict:
    """Send a member a mail about an account, subscription or bill."""
    await _row(call, "members", "member_id", member_id)
    await _subject(call, subject)
    new = await _new(call, "MA", member_id, template, subject, call.now)
    return {"mail_id": new, "template": template}


@tool(WRITE)
async def refer_for_review(call: Call, member_id: str, team: Team, subject: str, note: str) -> dict:
    """Refer a member's matter to another team, with the account, subscription, bill or payment it is about."""
    await _row(call, "members", "member_id", member_id)
    await _subject(call, subject)
    new = await _new(call, "RF", member_id, team, subject, _text(note), call.now)
    return {"referral_id": new, "team": team}


async def _all(call: Call, query: LiteralString, *values: Any) -> list[dict[str, Any]]:
    await call.db.execute(query, values)
    return await call.db.fetchall()


async def _row(call: Call, table: LiteralString, key: LiteralString, value: str) -> dict[str, Any]:
    rows = await _all(call, f"SELECT * FROM {table} WHERE {key} = %s", value)
    if not rows:
        raise Refused(f"There is nothing called {value} among the {table.replace('_', ' ')}.")
    return rows[0]


async def _sum(call: Call, table: LiteralString, key: LiteralString, value: str) -> Decimal:
    query = f"SELECT coalesce(sum(amount), 0) AS sum FROM {table} WHERE {key} = %s"
    return (await _all(call, query, value))[0]["sum"]


async def _running(call: Call, subscription_id: str) -> dict[str, Any]:
    found = await _row(call, "subscriptions", "subscription_id", subscription_id)
    if found["status"] == "ended":
        raise Refused(f"{subscription_id} ended on {found['ended_on']}.")
    return found


async def _subject(call: Call, subject: str) -> None:
    if subject[:2] not in ("AC", "SU", "BI", "PY"):
        raise Refused(f"{subject} is no account, subscription, bill or payment.")
    await _row(call, *TABLES[subject[:2]], subject)


async def _signed(
    call: Call, sign_off_id: str | None, matter: str, subject: str, amount: Decimal
) -> None:
    if sign_off_id is None:
        return
    found = await _row(call, "sign_offs", "sign_off_id", sign_off_id)
    asked = (found["matter"], found["subject"], found["amount"], found["answer"])
    if asked != (matter, subject, amount, "approved"):
        raise Refused(f"{sign_off_id} does not approve {amount} for {subject}.")


async def _parts(
    call: Call, parts: dict[str, LiteralString], key: LiteralString, value: str
) -> dict[str, list[dict[str, Any]]]:
    """What belongs to a record, by name, and its log."""
    query = "SELECT action, detail, at FROM change_log WHERE subject = %s ORDER BY at, change_id"
    found = {
        name: await _all(call, f"SELECT {part} WHERE {key} = %s ORDER BY 1", value)
        for name, part in parts.items()
    }
    return {**found, "log": await _all(call, query, value)}


async def _add(call: Call, table: LiteralString, *values: Any) -> None:
    marks: LiteralString = ", %s" * (len(values) - 1)
    await call.db.execute(f"INSERT INTO {table} VALUES (%s{marks})", values)


async def _set(call: Call, record: str, column: LiteralString, value: Any) -> None:
    table, key = TABLES[record[:2]]
    await call.db.execute(f"UPDATE {table} SET {column} = %s WHERE {key} = %s", (value, record))


def _text(value: str) -> str:
    if not value.strip():
        raise Refused("The text must not be empty.")
    return value.strip()


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
    await _add(call, table, new, *values)
    return new
