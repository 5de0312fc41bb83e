"""The order desk's tools on real Postgres: what they refuse, and the side table they never forget."""

from typing import Any

import pytest

from tests.support.env_server import EnvClient

DOMAIN, OPENED = "orders", "cancel-placed"
ADDRESS = {"street": "1 Weg", "city": "Ulm", "postcode": "89073", "country": "DE"}


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("find_customer", {"email": "nobody@example.com"}, "No customer"),
        ("list_orders", {"customer_id": "C-999"}, "no customer C-999"),
        ("get_order", {"order_id": "O-9"}, "no order O-9"),
        ("cancel_order", {"order_id": "O-1021"}, "is shipped"),
        ("cancel_order", {"order_id": "O-1005"}, "is cancelled"),
        ("change_address", {"order_id": "O-1012", **ADDRESS}, "is delivered"),
        ("change_address", {"order_id": "O-1027", **ADDRESS, "city": " "}, "must all be given"),
        ("issue_refund", {"order_id": "O-1027", "amount": 1, "reason": "late"}, "is placed"),
        ("issue_refund", {"order_id": "O-1012", "amount": 80, "reason": "late"}, "too much"),
        ("issue_refund", {"order_id": "O-1002", "amount": 80, "reason": "late"}, "12.50 of 89.00"),
        ("issue_refund", {"order_id": "O-1012", "amount": 0, "reason": "late"}, "above zero"),
        ("issue_refund", {"order_id": "O-1012", "amount": 1e300, "reason": "late"}, "a million"),
        ("issue_refund", {"order_id": "O-1012", "amount": 1.005, "reason": "late"}, "two decimals"),
        ("issue_refund", {"order_id": "O-1012", "amount": 5, "reason": "mood"}, "reason"),
        ("request_approval", {"order_id": "O-1012", "amount": 72, "reason": "late"}, "71.90"),
        ("open_ticket", {"customer_id": "C-101", "topic": "other", "note": " "}, "not be empty"),
        (
            "issue_refund",
            {"order_id": "O-1012", "amount": 5, "reason": "late", "approval_id": "A-31"},
            "no approval A-31 for order O-1012",
        ),
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


@pytest.mark.parametrize(
    ("tool", "arguments", "kind", "detail"),
    [
        ("cancel_order", {"order_id": "O-1027"}, "cancelled", ""),
        (
            "change_address",
            {"order_id": "O-1027", **ADDRESS},
            "address_changed",
            "1 Weg, Ulm, 89073, DE",
        ),
        (
            "issue_refund",
            {"order_id": "O-1012", "amount": 34.9, "reason": "damaged"},
            "refunded",
            "34.90 damaged",
        ),
        (
            "request_approval",
            {"order_id": "O-1016", "amount": 289, "reason": "damaged"},
            "approval_requested",
            "289.00 damaged pending",
        ),
        (
            "request_approval",
            {"order_id": "O-1016", "amount": 200, "reason": "damaged"},
            "approval_requested",
            "200.00 damaged granted",
        ),
        (
            "open_ticket",
            {"customer_id": "C-103", "topic": "other", "note": "x", "order_id": "O-1027"},
            "ticket_opened",
            "other",
        ),
    ],
)
async def test_every_write_leaves_one_event_on_its_order(
    client: EnvClient, episode: Any, tool: str, arguments: dict, kind: str, detail: str
):
    result = await client.call(episode, tool, **arguments)
    assert not result.is_error, result.content
    await client.seal(episode)
    added = await client.query(
        episode,
        "SELECT order_id, kind, detail FROM order_events WHERE at = '2026-03-02T09:00:00Z'",
    )
    assert added == [{"order_id": arguments["order_id"], "kind": kind, "detail": detail}]


async def test_a_pending_or_spent_or_differing_approval_does_not_open_the_till(
    client: EnvClient, episode: Any
):
    ask = {"order_id": "O-1016", "reason": "damaged"}
    for amount in (289, 100):
        assert not (await client.call(episode, "request_approval", amount=amount, **ask)).is_error

    async def refund(amount: float, approval_id: str) -> str:
        result = await client.call(
            episode, "issue_refund", amount=amount, approval_id=approval_id, **ask
        )
        return result.content if result.is_error else ""

    assert "is pending" in await refund(289, "A-33")
    assert "is for 100.00, not 99.00" in await refund(99, "A-34")
    assert await refund(100, "A-34") == ""
    assert "used already" in await refund(100, "A-34")


async def test_a_refused_call_does_not_shift_later_ids(client: EnvClient, episode: Any):
    refused = await client.call(
        episode, "issue_refund", order_id="O-1012", amount=999, reason="late"
    )
    done = await client.call(episode, "issue_refund", order_id="O-1012", amount=5, reason="late")
    assert refused.is_error
    assert '"refund_id":"R-204"' in done.content


async def test_the_seed_agrees_with_itself(client: EnvClient, episode: Any):
    await client.seal(episode)
    wrong_totals = "SELECT o.order_id FROM orders o JOIN order_lines l USING (order_id) GROUP BY o.order_id, o.total HAVING o.total <> sum(l.quantity * l.unit_price)"
    without_lines = (
        "SELECT order_id FROM orders WHERE order_id NOT IN (SELECT order_id FROM order_lines)"
    )
    untold_refunds = "SELECT refund_id FROM refunds r WHERE NOT EXISTS (SELECT 1 FROM order_events e WHERE e.order_id = r.order_id AND e.kind = 'refunded')"
    for query in (wrong_totals, without_lines, untold_refunds):
        assert await client.query(episode, query) == []
