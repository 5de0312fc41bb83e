"""The hire desk's tools on real Postgres: what they refuse, what they take along, and a seed that agrees with itself."""

from typing import Any

import pytest
import yaml

from tests.support.env_server import EnvClient
from tests.support.golden_calls import GoldenCalls

DOMAIN, OPENED = "rental", "dumper-for-the-garden"
golden = GoldenCalls(DOMAIN)

RESERVE = golden("dumper-for-the-garden", "reserve_machine")
CREDIT = golden("compressor-back-today", "give_hire_credit")
DROP = golden("roller-the-day-after-tomorrow", "drop_reservation")
LONGER = golden("two-more-days-for-nothing", "set_hire_end")
WANTED = golden("somebody-waits-for-it", "open_hire")["hire_id"]
RUN = golden("deliver-on-saturday", "plan_run")
DAMAGE = golden("scratches-and-a-window", "add_hire_charge")
SETTLE = golden("deposit-less-the-diesel", "settle_deposit")
SWAP = golden("generator-went-silent", "swap_machine")
RIGHT = golden("foreman-may-order", "set_ordering_right")
THEFT = golden("chain-cut-at-the-gate", "flag_missing")
CALLER = golden("roller-the-day-after-tomorrow", "send_hire_notice")["contact_id"]
NOTE = {"contact_id": CALLER, "team": "accounts", "note": "x"}


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("look_up_caller", {"email": "nobody@example.com"}, "No contact"),
        ("open_hire", {"hire_id": "RH-1"}, "There is no hire RH-1"),
        ("open_hire", {"hire_id": CALLER}, "is no hire"),
        ("rate_card", {"depot": "OSL"}, "depot"),
        ("reserve_machine", {**RESERVE, "starts_on": "12/3"}, "starts_on"),
        ("reserve_machine", {**RESERVE, "starts_on": "2027-03-08"}, "in the past"),
        ("reserve_machine", {**RESERVE, "machine_id": SWAP["machine_id"] + "9"}, "no machine"),
        ("reserve_machine", {**RESERVE, "price": 232.005}, "two decimals"),
        ("reserve_machine", {**RESERVE, "hirer_id": "HR-1"}, "foreign key"),
        ("set_hire_end", {**LONGER, "ends_on": "2027-03-08"}, "is past"),
        ("set_hire_end", {**DROP, "ends_on": "2027-03-20"}, "is reserved"),
        ("set_hire_end", {"hire_id": WANTED, "ends_on": "2027-03-13"}, "for somebody else"),
        ("drop_reservation", {"hire_id": LONGER["hire_id"]}, "is on_hire"),
        ("plan_run", {**RUN, "run_day": "2027-03-14"}, "No truck has room on 2027-03-14"),
        ("plan_run", {**RUN, "run_day": "2027-03-16"}, "No truck has room on 2027-03-16"),
        ("plan_run", {**RUN, "half": "evening"}, "half"),
        ("add_hire_charge", {**DAMAGE, "hire_id": DROP["hire_id"]}, "no open damage item of"),
        ("add_hire_charge", {**DAMAGE, "item": "transport"}, "check constraint"),
        ("add_hire_charge", {**DAMAGE, "clearance_id": "MC-71"}, "does not clear"),
        ("give_hire_credit", {**CREDIT, "clearance_id": None, "amount": 900.0}, "is too much"),
        ("give_hire_credit", {**CREDIT, "clearance_id": "MC-1"}, "no clearance MC-1"),
        ("settle_deposit", {**SETTLE, "released": 300.01}, "check constraint"),
        ("settle_deposit", {**SETTLE, "released": -1.0}, "above zero"),
        ("settle_deposit", {"hire_id": LONGER["hire_id"], "released": 0.0}, "No deposit is held"),
        ("set_ordering_right", {**RIGHT, "may_order": False}, "has that right as it is"),
        ("flag_missing", {**THEFT, "police_reference": " "}, "check constraint"),
        ("ask_branch_manager", {"matter": "credit", "record": "HR-1", "amount": 1.0}, "is no hire"),
        ("write_hire_log", {"record": "MX-1001", "entry": "remark", "detail": "x"}, "is no hire"),
        ("escalate_matter", {**NOTE, "record": "HI-1"}, "There is no invoice"),
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


async def test_a_machine_has_one_hirer_at_a_time(client: EnvClient, episode: Any):
    assert not (await client.call(episode, "reserve_machine", **RESERVE)).is_error
    for first, last in (("2027-03-16", "2027-03-20"), ("2027-03-10", "2027-03-12")):
        span = {"starts_on": first, "ends_on": last}
        result = await client.call(episode, "reserve_machine", **{**RESERVE, **span})
        assert result.is_error
        assert "is not free" in result.content
    after = {"starts_on": "2027-03-17", "ends_on": "2027-03-18"}
    assert not (await client.call(episode, "reserve_machine", **{**RESERVE, **after})).is_error


async def test_a_dropped_reservation_gives_its_truck_back_and_owes_nothing(
    client: EnvClient, episode: Any
):
    slot = {"depot": "RTM", "first_day": "2027-03-11", "last_day": "2027-03-11"}

    async def room() -> int:
        answer = await client.call(episode, "truck_space", **slot)
        return next(
            row["left_free"] for row in yaml.safe_load(answer.content) if row["half"] == "am"
        )

    before = await room()
    assert not (await client.call(episode, "drop_reservation", **DROP)).is_error
    assert await room() == before + 1
    money = yaml.safe_load((await client.call(episode, "open_charges", **DROP)).content)
    assert money["charges"] == []


async def test_a_clearance_opens_only_the_credit_that_it_grants(client: EnvClient, episode: Any):
    ask = {"matter": "credit", "record": CREDIT["hire_id"]}
    for amount in (318.0, 520.01):
        await client.call(episode, "ask_branch_manager", **ask, amount=amount)
    pending = f"MC-{int(CREDIT['clearance_id'][3:]) + 1}"

    async def credit(clearance: str, amount: float) -> bool:
        arguments = {**CREDIT, "clearance_id": clearance, "amount": amount}
        return not (await client.call(episode, "give_hire_credit", **arguments)).is_error

    assert not await credit(pending, 318.0)
    assert not await credit(CREDIT["clearance_id"], 318.01)
    assert await credit(CREDIT["clearance_id"], 318.0)


async def test_a_deposit_a_damage_and_a_theft_are_settled_once(client: EnvClient, episode: Any):
    for tool, arguments, said in (
        ("settle_deposit", SETTLE, "No deposit is held"),
        ("add_hire_charge", DAMAGE, "no open damage item"),
        ("flag_missing", THEFT, "is stolen"),
    ):
        assert not (await client.call(episode, tool, **arguments)).is_error
        result = await client.call(episode, tool, **arguments)
        assert result.is_error
        assert said in result.content


async def test_the_seed_agrees_with_itself(client: EnvClient, episode: Any):
    await client.seal(episode)
    for query in (
        "SELECT a.hire_id FROM hires a JOIN hires b ON a.machine_id = b.machine_id AND a.hire_id < b.hire_id"
        " WHERE a.starts_on <= greatest(b.ends_on, b.returned_on) AND b.starts_on <= greatest(a.ends_on, a.returned_on)",
        "SELECT hire_id FROM hires JOIN machines USING (machine_id) WHERE status = 'on_hire' AND state <> 'ready'",
        "SELECT hire_id FROM hires WHERE (status = 'reserved') <> (starts_on > '2027-03-09') AND status <> 'cancelled'",
        "SELECT hire_id FROM hires WHERE returned_on > '2027-03-09' OR returned_on < starts_on",
        "SELECT hire_id FROM hires JOIN hirers USING (hirer_id) LEFT JOIN deposits_held USING (hire_id)"
        " WHERE kind = 'private' AND deposit_id IS NULL",
        "SELECT hire_id FROM hires JOIN machines USING (machine_id) JOIN machine_classes USING (class)"
        " JOIN truck_runs USING (hire_id) WHERE heavy AND half = 'pm'",
        "SELECT hire_id FROM truck_runs JOIN hires USING (hire_id) WHERE site_zone IS NULL",
        "SELECT hire_id FROM hires JOIN machines USING (machine_id) JOIN machine_classes c USING (class)"
        " WHERE c.card_group IS NOT NULL AND status = 'on_hire' AND NOT EXISTS"
        " (SELECT FROM operator_cards o WHERE o.hirer_id = hires.hirer_id AND o.card_group = c.card_group)",
        "SELECT hire_id FROM hire_charges WHERE item = 'credit' AND NOT EXISTS"
        " (SELECT FROM hire_log WHERE record = hire_id AND entry = 'credited')",
        "SELECT hirer_id FROM hirers WHERE NOT EXISTS"
        " (SELECT FROM hirer_contacts c WHERE c.hirer_id = hirers.hirer_id AND owner)",
    ):
        assert await client.query(episode, query) == [], query
