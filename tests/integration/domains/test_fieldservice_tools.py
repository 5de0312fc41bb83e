"""The service desk's tools on real Postgres: what they refuse, what they take along, and a seed that agrees with itself."""

from typing import Any

import pytest

from tests.support.env_server import EnvClient
from tests.support.golden_calls import GoldenCalls

DOMAIN, OPENED = "fieldservice", "cancel-in-time"
golden = GoldenCalls(DOMAIN)

NEW = {"reference": "J-1", "note": "x"}


SCHEDULED = golden("cancel-in-time", "cancel_job")["job_id"]
WITH_PARTS = golden("cancel-without-visit", "cancel_job")["job_id"]
DONE = golden("overbilled-sensors", "get_job")["job_id"]
BOOKING = golden("move-day-first", "book_visit")
CREDIT = golden("covered-approval", "credit_invoice")
MOVED = golden("due-two-weeks", "move_due_date")
CONTACT = golden("cancel-in-time", "notify")["contact_id"]


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("find_contact", {"email": "nobody@example.com"}, "No contact"),
        ("get_unit", {"unit_id": "U-1"}, "no unit U-1"),
        ("get_job", {"job_id": "J-1"}, "no job J-1"),
        ("find_parts", {"model": "Calora"}, "No part is listed"),
        ("find_slots", {"region": "bodensee", "day": "17/3"}, "day"),
        ("cancel_job", {"job_id": DONE}, "is done"),
        ("book_visit", {**BOOKING, "day": "2026-03-11"}, "is not free"),
        ("book_visit", {**BOOKING, "technician_id": "E-99"}, "is not free"),
        ("book_visit", {**BOOKING, "half": "noon"}, "half"),
        ("reserve_part", {"job_id": SCHEDULED, "part_id": "P-818", "quantity": 1}, "0 of P-818"),
        ("reserve_part", {"job_id": SCHEDULED, "part_id": "P-801", "quantity": 0}, "cannot be"),
        ("credit_invoice", {**CREDIT, "approval_id": None, "amount": 467.01}, "too much"),
        ("credit_invoice", {**CREDIT, "approval_id": "A-1"}, "no approval A-1"),
        ("credit_invoice", {**CREDIT, "approval_id": None, "amount": 1.005}, "two decimals"),
        ("move_due_date", {**MOVED, "due_on": "2026-03-18"}, "due on 2026-03-18"),
        ("notify", {"contact_id": CONTACT, "template": "x", "reference": SCHEDULED}, "template"),
        ("escalate", {"contact_id": CONTACT, "topic": "other", **NEW}, "no job J-1"),
        ("write_journal", {"reference": "S-1", "action": "remark", "detail": "x"}, "S-1 is no"),
        ("write_journal", {"reference": SCHEDULED, "action": "remark", "detail": " "}, "be empty"),
    ],
)
async def test_what_must_never_be_stored_is_refused_with_a_sentence(
    client: EnvClient, episode: Any, tool: str, arguments: dict, sentence: str
):
    result = await client.call(episode, tool, **arguments)
    assert result.is_error
    assert sentence in result.content
    await client.seal(episode)
    _, changes, _ = await client.evidence(episode)
    assert changes == []


async def test_a_cancelled_job_gives_back_its_parts_and_its_slot(client: EnvClient, episode: Any):
    for job in (SCHEDULED, WITH_PARTS):
        assert not (await client.call(episode, "cancel_job", job_id=job)).is_error
    await client.seal(episode)
    kept = await client.query(
        episode,
        f"SELECT job_id FROM slots WHERE job_id IN ('{SCHEDULED}', '{WITH_PARTS}')"
        f" UNION SELECT job_id FROM job_parts WHERE job_id IN ('{SCHEDULED}', '{WITH_PARTS}')",
    )
    stock = await client.query(episode, "SELECT stock FROM parts WHERE part_id = 'P-830'")
    assert kept == []
    assert stock == [{"stock": 36 + 4}]


async def test_a_moved_visit_leaves_its_old_slot(client: EnvClient, episode: Any):
    assert not (await client.call(episode, "book_visit", **BOOKING)).is_error
    taken = await client.call(episode, "book_visit", **{**BOOKING, "job_id": SCHEDULED})
    assert "is not free" in taken.content
    await client.seal(episode)
    slots = await client.query(
        episode, f"SELECT day, half FROM slots WHERE job_id = '{BOOKING['job_id']}'"
    )
    assert [str(slot["day"]) for slot in slots] == [BOOKING["day"]]


async def test_an_approval_opens_only_the_credit_that_it_grants(client: EnvClient, episode: Any):
    ask = {"topic": "credit", "reference": CREDIT["invoice_id"]}
    for amount in (467.0, 601.0):
        await client.call(episode, "request_approval", **ask, amount=amount)
    plain = {key: value for key, value in CREDIT.items() if key != "approval_id"}
    granted = CREDIT["approval_id"]
    pending = f"A-{int(granted[2:]) + 1}"

    async def credit(approval: str, amount: float) -> bool:
        arguments = {**plain, "amount": amount, "approval_id": approval}
        return not (await client.call(episode, "credit_invoice", **arguments)).is_error

    assert not await credit(pending, 467.0)
    assert not await credit(granted, 466.0)
    assert await credit(granted, 467.0)


async def test_the_seed_agrees_with_itself(client: EnvClient, episode: Any):
    await client.seal(episode)
    visits = "FROM slots JOIN jobs USING (job_id) JOIN units USING (unit_id) JOIN sites USING (site_id) JOIN technicians USING (technician_id)"
    for query in (
        f"SELECT job_id {visits} WHERE sites.region <> technicians.region",
        f"SELECT job_id {visits} WHERE units.kind = 'gas_boiler' AND NOT gas",
        f"SELECT job_id {visits} WHERE units.kind = 'heat_pump' AND NOT refrigerant",
        "SELECT job_id FROM jobs WHERE (status = 'scheduled') <> EXISTS (SELECT FROM slots"
        " WHERE slots.job_id = jobs.job_id AND day >= '2026-03-12')",
        "SELECT invoice_id FROM invoices JOIN job_parts USING (job_id) GROUP BY invoice_id, material"
        " HAVING material <> sum(quantity * unit_price)",
        "SELECT site_id FROM sites JOIN customers USING (customer_id)"
        " WHERE (country = 'CH') <> (currency = 'CHF')",
        "SELECT credit_id FROM credits WHERE NOT EXISTS (SELECT FROM journal"
        " WHERE reference = invoice_id AND action = 'credited')",
        "SELECT job_id FROM job_parts JOIN jobs USING (job_id) JOIN units USING (unit_id)"
        " JOIN parts USING (part_id) WHERE model <> ALL (fits)",
    ):
        assert await client.query(episode, query) == [], query
