"""The stock desk's tools on real Postgres: what they refuse, what they take along, and a seed that agrees with itself."""

from typing import Any

import pytest

from tests.support.env_server import EnvClient
from tests.support.golden_calls import GoldenCalls

DOMAIN, OPENED = "warehouse", "in-nineteen-cartons"
golden = GoldenCalls(DOMAIN)

RECEIPT = golden("in-nineteen-cartons", "book_receipt")
MOVE = golden("move-to-the-ground", "move_stock")
ADJUST = golden("count-knives-above-the-limit", "adjust_stock")
DESTROY = golden("destroy-held-pieces", "destroy_stock")
LINE = golden("four-more-cartons", "change_pieces")
SHIPPED = golden("cancel-what-is-on-the-road", "show_outbound")["outbound_id"]
RELEASE = golden("release-warm-cheese", "end_quarantine")["quarantine_id"]
LOCKED = golden("release-dried-books", "show_lot")["lot_id"]
BACK = golden("back-cream-with-a-seal", "put_away_return")
LOSS = golden("loss-half-of-it", "post_amount")
NOTICE = golden("in-nineteen-cartons", "send_notice")
FLOOR = golden("odd-thirty-one-days", "escalate_to_team")["caller_id"]
CANCELLED = golden("cancel-in-picking", "steer_outbound")["outbound_id"]


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("find_caller", {"email": "nobody@example.com"}, "nobody@example.com"),
        ("show_lot", {"lot_id": "SK-1/L1"}, "SK-1"),
        ("show_bin", {"bin_id": "Z-99-9"}, "Z-99-9"),
        ("show_outbound", {"outbound_id": "RT-1"}, "RT-1"),
        ("book_receipt", {**RECEIPT, "sku_id": "SK-1"}, "not announced"),
        ("book_receipt", {**RECEIPT, "good": 0}, "inbound_lines"),
        ("book_receipt", {**RECEIPT, "good": 2401}, "room for"),
        ("book_receipt", {**RECEIPT, "lot_code": "in a box"}, "stock_lots"),
        ("move_stock", {**MOVE, "pieces": MOVE["pieces"] + 1}, "cannot leave"),
        ("move_stock", {**MOVE, "pieces": 0}, "cannot leave"),
        ("order_recount", {"bin_id": MOVE["to_bin"], "lot_id": MOVE["lot_id"]}, "count_sheets"),
        ("adjust_stock", {**ADJUST, "approval_id": None, "delta": -106}, "bin_stock"),
        ("adjust_stock", {**ADJUST, "approval_id": None, "delta": 0}, "delta"),
        ("adjust_stock", {**ADJUST, "approval_id": "CA-1"}, "CA-1"),
        ("open_quarantine", {"lot_id": LOCKED, "reason": "damage", "report": "x"}, "one_open"),
        ("open_quarantine", {"lot_id": MOVE["lot_id"], "reason": "damage", "report": " "}, "report"),
        ("destroy_stock", {**DESTROY, "approval_id": None, "pieces": 115}, "114 pieces"),
        ("steer_outbound", {"outbound_id": SHIPPED, "step": "cancel"}, "is shipped"),
        ("steer_outbound", {"outbound_id": CANCELLED, "step": "resume"}, "is picking"),
        ("change_pieces", {**LINE, "pieces": 121}, "held_pieces_are_on_hand"),
        ("change_pieces", {**LINE, "lot_id": MOVE["lot_id"]}, "no line"),
        ("set_service", {"outbound_id": SHIPPED, "service": "express"}, "is shipped"),
        ("put_away_return", {**BACK, "lot_id": MOVE["lot_id"]}, "announces no"),
        ("post_amount", {**LOSS, "kind": "rush"}, "nothing to post"),
        ("post_amount", {**LOSS, "amount": 1.005}, "two decimals"),
        ("send_notice", {**NOTICE, "caller_id": FLOOR}, "floor staff"),
        ("send_notice", {**NOTICE, "record": NOTICE["caller_id"]}, "nothing that this"),
        ("write_stock_journal", {"lot_id": "SK-1/L1", "event": "moved", "pieces": 1, "note": "x"}, "lot_id"),
    ],
)  # fmt: skip
async def test_what_must_never_be_stored_is_refused_with_a_sentence(
    client: EnvClient, episode: Any, tool: str, arguments: dict, sentence: str
):
    result = await client.call(episode, tool, **arguments)
    assert result.is_error
    assert sentence in result.content
    await client.seal(episode)
    _, changes, _ = await client.evidence(episode)
    assert changes == []


async def test_a_receipt_closes_its_inbound_and_is_booked_once(client: EnvClient, episode: Any):
    assert not (await client.call(episode, "book_receipt", **{**RECEIPT, "damaged": 5})).is_error
    again = await client.call(episode, "book_receipt", **RECEIPT)
    assert "booked already" in again.content
    await client.seal(episode)
    lot = f"{RECEIPT['sku_id']}/{RECEIPT['lot_code']}"
    query = f"SELECT bin_id, on_hand FROM bin_stock WHERE lot_id = '{lot}'"
    rows = await client.query(episode, query)
    assert {row["bin_id"]: row["on_hand"] for row in rows} == {RECEIPT["bin_id"]: 463, "Q-01-1": 5}
    query = f"SELECT status FROM inbounds WHERE inbound_id = '{RECEIPT['inbound_id']}'"
    assert await client.query(episode, query) == [{"status": "closed"}]


async def test_cancelling_frees_what_was_held(client: EnvClient, episode: Any):
    query = (
        "SELECT sum(held) AS held FROM bin_stock JOIN outbound_lines USING (bin_id, lot_id)"
        f" WHERE outbound_id = '{CANCELLED}'"
    )
    shown = await client.call(episode, "show_outbound", outbound_id=CANCELLED)
    assert not shown.is_error
    await client.call(episode, "steer_outbound", outbound_id=CANCELLED, step="cancel")
    await client.seal(episode)
    assert await client.query(episode, query) == [{"held": 0}]


async def test_an_approval_opens_only_what_it_was_granted_for(client: EnvClient, episode: Any):
    ask = {"matter": "release", "record": RELEASE}
    answers = [
        (await client.call(episode, "ask_controller_approval", **ask, amount=amount)).content
        for amount in (819.2, 1024.0, 2500.01)
    ]
    assert ["granted" in answer for answer in answers] == [True, True, False]
    granted = golden("release-warm-cheese", "end_quarantine")["approval_id"]
    first = int(granted[3:])

    async def release(number: int) -> bool:
        arguments = {"quarantine_id": RELEASE, "approval_id": f"CA-{number}"}
        return not (await client.call(episode, "end_quarantine", **arguments)).is_error

    assert not await release(first)
    assert not await release(first + 2)
    assert await release(first + 1)
    assert not await release(first + 1)


async def test_the_seed_agrees_with_itself(client: EnvClient, episode: Any):
    await client.seal(episode)
    held = (
        "SELECT bin_id, lot_id, sum(pieces) AS pieces FROM outbound_lines JOIN outbounds"
        " USING (outbound_id) WHERE status NOT IN ('shipped', 'cancelled') GROUP BY bin_id, lot_id"
    )
    for query in (
        f"SELECT bin_id FROM bin_stock LEFT JOIN ({held}) AS lines USING (bin_id, lot_id)"
        " WHERE held <> coalesce(lines.pieces, 0)",
        "SELECT bin_id FROM bin_stock JOIN bins USING (bin_id)"
        " GROUP BY bin_id, capacity HAVING sum(on_hand) > capacity",
        "SELECT bin_id FROM bin_stock JOIN stock_lots USING (lot_id) JOIN skus USING (sku_id)"
        " JOIN bins USING (bin_id) WHERE zone IN ('ambient', 'cold') AND zone <> storage",
        "SELECT bin_id FROM bin_stock JOIN stock_lots USING (lot_id) JOIN bins USING (bin_id)"
        " WHERE zone IN ('ambient', 'cold') GROUP BY bin_id, sku_id HAVING count(*) > 1",
        "SELECT outbound_id FROM outbounds JOIN outbound_lines USING (outbound_id)"
        " JOIN stock_lots USING (lot_id) JOIN skus USING (sku_id)"
        " WHERE skus.merchant_id <> outbounds.merchant_id",
        "SELECT lot_id FROM stock_lots JOIN skus USING (sku_id)"
        " WHERE (kind IN ('food', 'cosmetic')) <> (best_before IS NOT NULL)",
        "SELECT return_id FROM return_parcels JOIN outbounds USING (outbound_id)"
        " WHERE status <> 'shipped' OR arrived_on < shipped_on",
        "SELECT merchant_id FROM merchants WHERE NOT EXISTS (SELECT FROM desk_callers AS users"
        " WHERE users.merchant_id = merchants.merchant_id AND role = 'owner')",
        "SELECT lot_id FROM stock_lots WHERE NOT EXISTS"
        " (SELECT FROM stock_journal WHERE stock_journal.lot_id = stock_lots.lot_id)",
    ):
        assert await client.query(episode, query) == [], query
