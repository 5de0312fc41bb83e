"""The order desk's tools.

They enforce what the database must never hold: unknown ids, a refund above what was paid, a cancelled
parcel that is on its way. What the policy asks of the agent (thresholds, approvals, the 30 days) they
leave to the agent. Every change of an order is written to order_events as well.
"""

from decimal import Decimal
from typing import Any, Literal

from env_server.toolkit import READ, WRITE, Call, Refused, tool

Reason = Literal["damaged", "wrong_item", "late"]
Topic = Literal["packed_cancellation", "address_review", "account_security", "other"]

SUPERVISOR_LIMIT = Decimal("200.00")
"""Amounts up to here are granted at once; above, a supervisor decides later."""


@tool(READ)
async def find_customer(call: Call, email: str) -> dict:
    """Find a customer by email address. Gives the customer id, name, tier and country."""
    await call.db.execute(
        "SELECT customer_id, name, email, tier, country FROM customers WHERE email = lower(%s)",
        (email.strip(),),
    )
    row = await call.db.fetchone()
    if row is None:
        raise Refused(f"No customer has the email address {email}.")
    return row


@tool(READ)
async def list_orders(call: Call, customer_id: str) -> dict:
    """List the orders of a customer, newest first, with status, dates and total."""
    await _customer(call, customer_id)
    await call.db.execute(
        "SELECT order_id, status, placed_at, promised_on, delivered_at, total FROM orders"
        " WHERE customer_id = %s ORDER BY placed_at DESC, order_id DESC",
        (customer_id,),
    )
    return {"orders": await call.db.fetchall()}


@tool(READ)
async def get_order(call: Call, order_id: str) -> dict:
    """Show one order: owner, status, dates, address, lines with prices, and earlier refunds."""
    order = await _order(call, order_id)
    await call.db.execute(
        "SELECT line_no, product_id, name, quantity, unit_price, final_sale"
        " FROM order_lines JOIN products USING (product_id) WHERE order_id = %s ORDER BY line_no",
        (order_id,),
    )
    lines = await call.db.fetchall()
    await call.db.execute(
        "SELECT refund_id, amount, reason FROM refunds WHERE order_id = %s ORDER BY refund_id",
        (order_id,),
    )
    return {**order, "lines": lines, "refunds": await call.db.fetchall()}


@tool(WRITE)
async def cancel_order(call: Call, order_id: str) -> dict:
    """Cancel an order that has not left the warehouse."""
    order = await _order(call, order_id)
    if order["status"] not in ("placed", "packed"):
        raise Refused(f"Order {order_id} is {order['status']} and cannot be cancelled.")
    await call.db.execute("UPDATE orders SET status = 'cancelled' WHERE order_id = %s", (order_id,))
    await _event(call, order_id, "cancelled", "")
    return {"order_id": order_id, "status": "cancelled"}


@tool(WRITE)
async def change_address(
    call: Call, order_id: str, street: str, city: str, postcode: str, country: str
) -> dict:
    """Change the delivery address of an order that has not left the warehouse.

    `country` is the two-letter code, such as DE.
    """
    order = await _order(call, order_id)
    if order["status"] not in ("placed", "packed"):
        raise Refused(f"Order {order_id} is {order['status']}; its address is fixed.")
    parts = [part.strip() for part in (street, city, postcode, country.upper())]
    if not all(parts):
        raise Refused("Street, city, postcode and country must all be given.")
    await call.db.execute(
        "UPDATE orders SET ship_street = %s, ship_city = %s, ship_postcode = %s, ship_country = %s"
        " WHERE order_id = %s",
        (*parts, order_id),
    )
    await _event(call, order_id, "address_changed", ", ".join(parts))
    return {"order_id": order_id, "address": ", ".join(parts)}


@tool(WRITE)
async def request_approval(call: Call, order_id: str, amount: float, reason: Reason) -> dict:
    """Ask a supervisor to approve a refund of `amount` euros. Answers `granted` or `pending`."""
    order = await _order(call, order_id)
    euros = _euros(amount)
    if euros > order["total"]:
        raise Refused(f"{euros} is more than order {order_id} cost ({order['total']}).")
    status = "granted" if euros <= SUPERVISOR_LIMIT else "pending"
    approval_id = await _next_id(call, "approvals", "approval_id", "A")
    await call.db.execute(
        "INSERT INTO approvals VALUES (%s, %s, %s, %s, %s, %s)",
        (approval_id, order_id, euros, reason, status, call.now),
    )
    await _event(call, order_id, "approval_requested", f"{euros} {reason} {status}")
    return {"approval_id": approval_id, "status": status, "amount": euros}


@tool(WRITE)
async def issue_refund(
    call: Call, order_id: str, amount: float, reason: Reason, approval_id: str | None = None
) -> dict:
    """Refund `amount` euros of a delivered order, citing an approval where the policy asks for one."""
    order = await _order(call, order_id)
    euros = _euros(amount)
    if order["status"] != "delivered":
        raise Refused(f"Order {order_id} is {order['status']}; only delivered orders are refunded.")
    await call.db.execute(
        "SELECT coalesce(sum(amount), 0) AS refunded FROM refunds WHERE order_id = %s", (order_id,)
    )
    refunded = (await call.db.fetchone())["refunded"]
    if refunded + euros > order["total"]:
        raise Refused(f"{euros} is too much: {refunded} of {order['total']} was refunded already.")
    if approval_id is not None:
        await _check_approval(call, approval_id, order_id, euros)
    refund_id = await _next_id(call, "refunds", "refund_id", "R")
    await call.db.execute(
        "INSERT INTO refunds VALUES (%s, %s, %s, %s, %s, %s)",
        (refund_id, order_id, euros, reason, approval_id, call.now),
    )
    await _event(call, order_id, "refunded", f"{euros} {reason}")
    return {"refund_id": refund_id, "order_id": order_id, "amount": euros}


@tool(WRITE)
async def open_ticket(
    call: Call, customer_id: str, topic: Topic, note: str, order_id: str | None = None
) -> dict:
    """Hand a matter to a colleague. `note` says in one sentence what it is about."""
    await _customer(call, customer_id)
    if not note.strip():
        raise Refused("The note must not be empty.")
    if order_id is not None:
        await _order(call, order_id)
    ticket_id = await _next_id(call, "tickets", "ticket_id", "T")
    await call.db.execute(
        "INSERT INTO tickets VALUES (%s, %s, %s, %s, %s, 'open', %s)",
        (ticket_id, customer_id, order_id, topic, note.strip(), call.now),
    )
    if order_id is not None:
        await _event(call, order_id, "ticket_opened", topic)
    return {"ticket_id": ticket_id, "topic": topic, "status": "open"}


async def _customer(call: Call, customer_id: str) -> dict[str, Any]:
    await call.db.execute("SELECT * FROM customers WHERE customer_id = %s", (customer_id,))
    row = await call.db.fetchone()
    if row is None:
        raise Refused(f"There is no customer {customer_id}.")
    return row


async def _order(call: Call, order_id: str) -> dict[str, Any]:
    await call.db.execute("SELECT * FROM orders WHERE order_id = %s", (order_id,))
    row = await call.db.fetchone()
    if row is None:
        raise Refused(f"There is no order {order_id}.")
    return row


async def _check_approval(call: Call, approval_id: str, order_id: str, euros: Decimal) -> None:
    await call.db.execute("SELECT * FROM approvals WHERE approval_id = %s", (approval_id,))
    approval = await call.db.fetchone()
    if approval is None or approval["order_id"] != order_id:
        raise Refused(f"There is no approval {approval_id} for order {order_id}.")
    if approval["status"] != "granted":
        raise Refused(f"Approval {approval_id} is {approval['status']}.")
    if approval["amount"] != euros:
        raise Refused(f"Approval {approval_id} is for {approval['amount']}, not {euros}.")
    await call.db.execute("SELECT 1 FROM refunds WHERE approval_id = %s", (approval_id,))
    if await call.db.fetchone():
        raise Refused(f"Approval {approval_id} was used already.")


def _euros(amount: float) -> Decimal:
    value = Decimal(str(amount))
    if not value.is_finite() or not 0 < value < 1_000_000 or value != round(value, 2):
        raise Refused("The amount must be above zero, below a million, with at most two decimals.")
    return round(value, 2)


async def _next_id(call: Call, table: str, column: str, prefix: str) -> str:
    # From the rows, not a sequence: a refused call must not shift the ids of later ones.
    await call.db.execute(
        f"SELECT coalesce(max(substr({column}, 3)::integer), 0) + 1 AS next FROM {table}"
    )
    return f"{prefix}-{(await call.db.fetchone())['next']}"


async def _event(call: Call, order_id: str, kind: str, detail: str) -> None:
    await call.db.execute(
        "INSERT INTO order_events"
        " SELECT %s, coalesce(max(seq), 0) + 1, %s, %s, %s FROM order_events WHERE order_id = %s",
        (order_id, kind, detail, call.now, order_id),
    )
