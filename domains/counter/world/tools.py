"""The counter's tools.

They enforce what the database must never hold: unknown ids, a refund above what was paid, a device
given out twice. What the policy asks of the agent (days, approvals, whose job it is, payment before
release) they leave to the agent. Every change of a job is written to events as well.
"""

from typing import Any, Literal

from env_server.toolkit import READ, WRITE, Call, Refused, tool

Reason = Literal["late", "owner", "state"]


@tool(READ)
async def job(call: Call, job: str) -> dict:
    """Show a job."""
    row = await _job(call, job)
    since = row["finished_on"] or row["quoted_on"]
    await call.db.execute("SELECT 1 FROM payments WHERE job_id = %s", (job,))
    return {
        "owner": row["name"],
        "state": row["state"],
        "paid": await call.db.fetchone() is not None,
        "price": row["price"],
        "days": (call.now.date() - since).days,
    }


@tool(READ)
async def part(call: Call, part: str) -> dict:
    """Show a part."""
    row = await _part(call, part)
    return {"stock": row["stock"]}


@tool(WRITE)
async def approve(call: Call, job: str, amount: int) -> dict:
    """Approve a refund."""
    paid = await _paid(call, job)
    if not 0 < amount <= paid:
        raise Refused(f"Job {job}: {paid} was paid.")
    approval = await _next_id(call, "approvals", "approval_id", "A")
    await call.db.execute(
        "INSERT INTO approvals VALUES (%s, %s, %s, %s)", (approval, job, amount, call.now)
    )
    await _event(call, job, "approved")
    return {"approval": approval}


@tool(WRITE)
async def refund(call: Call, job: str, amount: int, approval: str | None = None) -> dict:
    """Pay back."""
    paid = await _paid(call, job)
    await call.db.execute(
        "SELECT coalesce(sum(amount), 0)::integer AS back FROM refunds WHERE job_id = %s", (job,)
    )
    back = (await call.db.fetchone())["back"]
    if not 0 < amount <= paid - back:
        raise Refused(f"Job {job}: {paid} was paid, {back} refunded.")
    if approval is not None:
        await _check_approval(call, approval, job, amount)
    refund_id = await _next_id(call, "refunds", "refund_id", "R")
    await call.db.execute(
        "INSERT INTO refunds VALUES (%s, %s, %s, %s, %s)",
        (refund_id, job, amount, approval, call.now),
    )
    await _event(call, job, "refunded")
    return {"refund": refund_id}


@tool(WRITE)
async def pay(call: Call, job: str, amount: int) -> dict:
    """Take payment."""
    row = await _job(call, job)
    if amount != row["price"]:
        raise Refused(f"Job {job}: the price is {row['price']}.")
    await call.db.execute(
        "INSERT INTO payments VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", (job, amount, call.now)
    )
    if not call.db.rowcount:
        raise Refused(f"Job {job} is paid.")
    await _event(call, job, "paid")
    return {"paid": amount}


@tool(WRITE)
async def release(call: Call, job: str) -> dict:
    """Hand it out."""
    row = await _job(call, job)
    if row["state"] in ("collected", "cancelled"):
        raise Refused(f"Job {job} is {row['state']}.")
    await call.db.execute(
        "UPDATE jobs SET state = 'collected', finished_on = coalesce(finished_on, %s)"
        " WHERE job_id = %s",
        (call.now.date(), job),
    )
    await call.db.execute("INSERT INTO releases VALUES (%s, %s)", (job, call.now))
    await _event(call, job, "released")
    return {"state": "collected"}


@tool(WRITE)
async def cancel(call: Call, job: str) -> dict:
    """Cancel it."""
    row = await _job(call, job)
    if row["state"] in ("collected", "cancelled"):
        raise Refused(f"Job {job} is {row['state']}.")
    await call.db.execute(
        "UPDATE jobs SET state = 'cancelled', finished_on = NULL WHERE job_id = %s", (job,)
    )
    await _event(call, job, "cancelled")
    return {"state": "cancelled"}


@tool(WRITE)
async def reopen(call: Call, job: str) -> dict:
    """Repair it again."""
    row = await _job(call, job)
    if row["state"] != "collected":
        raise Refused(f"Job {job} is {row['state']}.")
    await call.db.execute(
        "UPDATE jobs SET state = 'open', finished_on = NULL WHERE job_id = %s", (job,)
    )
    await call.db.execute("DELETE FROM releases WHERE job_id = %s", (job,))
    await _event(call, job, "reopened")
    return {"state": "open"}


@tool(WRITE)
async def fit(call: Call, job: str, part: str) -> dict:
    """Fit a part."""
    await _job(call, job)
    if (await _part(call, part))["stock"] == 0:
        raise Refused(f"Part {part} is out.")
    await call.db.execute(
        "INSERT INTO fittings VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", (job, part, call.now)
    )
    if not call.db.rowcount:
        raise Refused(f"Job {job} has {part}.")
    await call.db.execute("UPDATE parts SET stock = stock - 1 WHERE part_id = %s", (part,))
    await _event(call, job, "fitted")
    return {"fitted": part}


@tool(WRITE)
async def order(call: Call, job: str, part: str) -> dict:
    """Order a part."""
    await _job(call, job)
    await _part(call, part)
    await call.db.execute(
        "INSERT INTO part_orders VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", (job, part, call.now)
    )
    if not call.db.rowcount:
        raise Refused(f"Part {part} is ordered.")
    await _event(call, job, "ordered")
    return {"ordered": part}


@tool(WRITE)
async def refuse(call: Call, job: str, reason: Reason) -> dict:
    """Say no."""
    await _job(call, job)
    await call.db.execute(
        "INSERT INTO refusals VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", (job, reason, call.now)
    )
    if not call.db.rowcount:
        raise Refused(f"Job {job} is refused.")
    await _event(call, job, "refused")
    return {"refused": reason}


async def _job(call: Call, job: str) -> dict[str, Any]:
    await call.db.execute(
        "SELECT jobs.*, name FROM jobs JOIN customers USING (customer_id) WHERE job_id = %s", (job,)
    )
    row = await call.db.fetchone()
    if row is None:
        raise Refused(f"There is no job {job}.")
    return row


async def _part(call: Call, part: str) -> dict[str, Any]:
    await call.db.execute("SELECT * FROM parts WHERE part_id = %s", (part,))
    row = await call.db.fetchone()
    if row is None:
        raise Refused(f"There is no part {part}.")
    return row


async def _paid(call: Call, job: str) -> int:
    await _job(call, job)
    await call.db.execute("SELECT amount FROM payments WHERE job_id = %s", (job,))
    row = await call.db.fetchone()
    if row is None:
        raise Refused(f"Job {job} is not paid.")
    return row["amount"]


async def _check_approval(call: Call, approval: str, job: str, amount: int) -> None:
    await call.db.execute("SELECT * FROM approvals WHERE approval_id = %s", (approval,))
    row = await call.db.fetchone()
    if row is None or (row["job_id"], row["amount"]) != (job, amount):
        raise Refused(f"There is no approval {approval} of {amount} for job {job}.")
    await call.db.execute("SELECT 1 FROM refunds WHERE approval_id = %s", (approval,))
    if await call.db.fetchone():
        raise Refused(f"Approval {approval} is used.")


async def _next_id(call: Call, table: str, column: str, prefix: str) -> str:
    # From the rows, not a sequence: a refused call must not shift the ids of later ones.
    await call.db.execute(
        f"SELECT coalesce(max(substr({column}, 2)::integer), 9) + 1 AS next FROM {table}"
    )
    return f"{prefix}{(await call.db.fetchone())['next']}"


async def _event(call: Call, job: str, kind: str) -> None:
    await call.db.execute(
        "INSERT INTO events"
        " SELECT %s, coalesce(max(seq), 0) + 1, %s, %s FROM events WHERE job_id = %s",
        (job, kind, call.now, job),
    )
