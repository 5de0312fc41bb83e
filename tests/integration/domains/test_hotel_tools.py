"""The hotels' tools on real Postgres: what they refuse, what they take along, and a seed that agrees with itself."""

from typing import Any

import pytest
import yaml

from tests.support.env_server import EnvClient
from tests.support.golden_calls import GoldenCalls

DOMAIN, OPENED = "hotel", "dates-to-november"
golden = GoldenCalls(DOMAIN)

BOOKED = golden("dates-to-november", "change_dates")
LONGER = golden("longer-last-deal", "change_dates")
PREPAID = golden("saver-half-back", "pay_back")
ALLOWANCE = golden("wet-carpet-signoff", "grant_allowance")
MOVE = golden("broken-tap", "move_to_room")
VOUCHER = golden("voucher-fifty", "redeem_voucher")
BLOCK = golden("group-four-back", "resize_block")
ITEM = golden("found-scarf-posted", "release_item")
GUEST = golden("dates-to-november", "send_letter")["guest_id"]
FULL = {"stay_id": golden("dates-next-best", "change_dates")["stay_id"], "arrive": "2026-10-20"}
NOTE = {"guest_id": GUEST, "desk": "other", "note": "x"}


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("find_guest", {"email": "nobody@example.com"}, "No guest"),
        ("show_stay", {"stay_id": "KQ-1"}, "There is no stay KQ-1"),
        ("show_stay", {"stay_id": GUEST}, "is no stay"),
        ("list_free_rooms", {"house": "OSL"}, "house"),
        ("cancel_stay", {"stay_id": LONGER["stay_id"]}, "is in_house"),
        ("change_dates", {**BOOKED, "arrive": "5/11"}, "arrive"),
        ("change_dates", {**BOOKED, "depart": BOOKED["arrive"]}, "must be after arrival"),
        ("change_dates", {**BOOKED, "arrive": "2026-10-12"}, "in the past"),
        ("change_dates", {**BOOKED, "depart": "2027-11-08"}, "too few standard rooms"),
        ("change_dates", {**LONGER, "arrive": "2026-10-13"}, "has begun"),
        ("change_dates", {**FULL, "depart": "2026-10-22"}, "POR has too few standard rooms"),
        ("set_checkout_hour", {"stay_id": LONGER["stay_id"], "hour": 21}, "between 12 and 20"),
        ("set_checkout_hour", {"stay_id": BOOKED["stay_id"], "hour": 13}, "is booked"),
        ("move_to_room", {**MOVE, "room": "LEI-102"}, "is not a free room of TRI"),
        ("pay_back", {**PREPAID, "amount": 390.01}, "390.00 of"),
        ("pay_back", {"stay_id": BOOKED["stay_id"], "amount": 1.0}, "too much"),
        ("grant_allowance", {**ALLOWANCE, "signoff_id": None, "amount": 740.01}, "too much"),
        ("grant_allowance", {**ALLOWANCE, "signoff_id": "DS-1"}, "no sign-off DS-1"),
        ("grant_allowance", {**ALLOWANCE, "signoff_id": None, "amount": 0.005}, "two decimals"),
        ("charge_fee", {"stay_id": BOOKED["stay_id"], "fee": "tip", "amount": 1.0}, "fee"),
        ("resize_block", {**BLOCK, "held": 16}, "is no other number"),
        ("resize_block", {**BLOCK, "held": 60}, "too few"),
        ("bill_to_firm", {"stay_id": LONGER["stay_id"], "item": "room"}, "belongs to no firm"),
        ("credit_points", {"stay_id": LONGER["stay_id"], "points": 0}, "above zero"),
        ("send_letter", {"guest_id": GUEST, "letter": "x", "record": "KQ-1"}, "letter"),
        ("hand_over", {**NOTE, "record": GUEST}, "is no stay or group block or found item"),
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


async def test_moved_dates_give_nights_back_and_take_the_new_ones(client: EnvClient, episode: Any):
    nights = "SELECT night, left_open FROM room_nights WHERE house = 'LEI' AND kind = 'standard'"
    before = await client.call(episode, "list_open_nights", house="LEI", arrive="2026-10-22", depart="2026-11-09")  # fmt: skip
    opened = yaml.safe_load(before.content)["open"]
    assert not (await client.call(episode, "change_dates", **BOOKED)).is_error
    await client.seal(episode)
    after = {str(row["night"]): row["left_open"] for row in await client.query(episode, nights)}
    expected = {"2026-10-22": 1, "2026-10-24": 1, "2026-10-25": 0, "2026-11-05": -1, "2026-11-07": -1, "2026-11-08": 0}  # fmt: skip
    assert {n: after[n] - opened[n]["standard"] for n in expected} == expected


async def test_a_sign_off_opens_only_the_allowance_that_it_grants(client: EnvClient, episode: Any):
    ask = {"matter": "allowance", "record": ALLOWANCE["stay_id"]}
    for amount in (222.0, 350.01):
        await client.call(episode, "ask_duty_manager", **ask, amount=amount)
    waiting = f"DS-{int(ALLOWANCE['signoff_id'][3:]) + 1}"

    async def allow(signoff: str, amount: float) -> bool:
        arguments = {**ALLOWANCE, "signoff_id": signoff, "amount": amount}
        return not (await client.call(episode, "grant_allowance", **arguments)).is_error

    assert not await allow(waiting, 350.01)
    assert not await allow(ALLOWANCE["signoff_id"], 221.0)
    assert await allow(ALLOWANCE["signoff_id"], 222.0)
    assert not await allow(ALLOWANCE["signoff_id"], 222.0)


async def test_a_room_a_voucher_and_a_thing_are_given_once(client: EnvClient, episode: Any):
    other = golden("agency-dark-room", "move_to_room")["stay_id"]
    for tool, arguments, said in (
        ("move_to_room", MOVE, "is not a free room"),
        ("redeem_voucher", VOUCHER, "was used for"),
        ("release_item", ITEM, "is sent already"),
    ):
        assert not (await client.call(episode, tool, **arguments)).is_error
        again = {**arguments, "stay_id": other} if tool == "move_to_room" else arguments
        result = await client.call(episode, tool, **again)
        assert result.is_error
        assert said in result.content


async def test_the_seed_agrees_with_itself(client: EnvClient, episode: Any):
    await client.seal(episode)
    for query in (
        "SELECT a.stay_id FROM stays a JOIN stays b ON a.room = b.room AND a.stay_id < b.stay_id"
        " AND a.arrive < b.depart AND b.arrive < a.depart",
        "SELECT stay_id FROM stays JOIN rooms USING (room) WHERE (rooms.house, rooms.kind) <> (stays.house, stays.kind)",
        "SELECT stay_id FROM stays JOIN rooms USING (room) WHERE status = 'in_house' AND out_of_order",
        "SELECT stay_id FROM stays WHERE status = 'in_house' AND '2026-10-14' NOT BETWEEN arrive AND depart",
        "SELECT stay_id FROM stays WHERE (status = 'booked' AND arrive < '2026-10-14')"
        " OR (status IN ('departed', 'no_show') AND depart > '2026-10-14')",
        "SELECT stay_id FROM stays JOIN folio_lines USING (stay_id) WHERE status IN ('departed', 'no_show')"
        " GROUP BY stay_id HAVING sum(amount) > 0",
        "SELECT stay_id FROM stays JOIN tariffs USING (tariff) WHERE prepaid AND status = 'booked' AND nightly * (depart - arrive)"
        " <> (SELECT -sum(amount) FROM folio_lines WHERE folio_lines.stay_id = stays.stay_id)",
        "SELECT stay_id FROM folio_lines WHERE item = 'allowance' AND NOT EXISTS"
        " (SELECT FROM logbook WHERE record = stay_id AND entry = 'allowance')",
        "SELECT block_id FROM group_blocks WHERE held > contracted",
    ):
        assert await client.query(episode, query) == [], query
