"""The billing desk's tools on real Postgres: what they refuse, what they take along, and a seed that agrees with itself."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest

from tests.support.env_server import EnvClient
from tests.support.golden_calls import GoldenCalls

DOMAIN, OPENED = "subscriptions", "seats-five-more"
golden = GoldenCalls(DOMAIN)

FULL = golden("seats-five-more", "change_seats")["subscription_id"]
TWELVE = {"subscription_id": FULL, "effective": "now"}
GONE = golden("back-out-paid", "end_subscription")["subscription_id"]
CREDIT = golden("billed-a-year-too-dear", "issue_credit_note")
BOUNCED = golden("hold-bounced", "hold_dunning")["bill_id"]
DISPUTED = int(golden("runs-in-dispute", "show_bill")["bill_id"][3:])
DOUBLE = golden("twice-in-june", "pay_out")
OWNER = golden("owner-retires", "set_member_role")["member_id"]
HEIR = golden.of("owner-retires")[-1]["arguments"]["member_id"]
RESTING = golden("rest-july-august", "pause_subscription")
MEMBER = golden("seats-five-more", "send_mail")["member_id"]


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("find_member", {"email": "nobody@example.com"}, "nobody@example.com"),
        ("show_account", {"account_id": "AC-1"}, "AC-1"),
        ("show_bill", {"bill_id": "BI-1"}, "BI-1"),
        ("show_voucher", {"code": "summer15"}, "summer15"),
        ("show_prices", {"currency": "CHF"}, "currency"),
        ("change_seats", {**TWELVE, "seats": 12}, "no change"),
        ("change_seats", {**TWELVE, "seats": 11}, "12 licences"),
        ("change_plan", {**TWELVE, "plan": "team"}, "on team already"),
        ("set_renewal", {"subscription_id": FULL, "renews": True}, "renews already"),
        ("pause_subscription", {**RESTING, "resumes_on": "2026-06-30"}, "2026-06-30"),
        ("pause_subscription", {**RESTING, "resumes_on": "1 September"}, "resumes_on"),
        ("issue_bill", {"subscription_id": FULL, "kind": "seats", "net": 0.0}, "above zero"),
        ("issue_bill", {"subscription_id": FULL, "kind": "overage", "net": 4.0}, "kind"),
        ("issue_credit_note", {**CREDIT, "sign_off_id": None, "amount": 7200.01}, "too much"),
        ("issue_credit_note", {**CREDIT, "sign_off_id": "SO-1"}, "SO-1"),
        ("pay_out", {**DOUBLE, "amount": 114.25}, "0 of it"),
        ("pay_out", {**DOUBLE, "payment_id": f"PY-{DISPUTED * 3}"}, "charged_back"),
        ("pay_out", {**DOUBLE, "amount": 1.005}, "two decimals"),
        ("hold_dunning", {"bill_id": BOUNCED, "until": "2026-06-17"}, "not after today"),
        ("set_member_role", {"member_id": HEIR, "role": "owner"}, "one_owner_of_an_account"),
        ("log_change", {"subject": MEMBER, "action": "paused", "detail": "x"}, "is no account"),
        ("log_change", {"subject": FULL, "action": "outage_confirmed", "detail": "x"}, "action"),
        ("log_change", {"subject": FULL, "action": "paused", "detail": " "}, "be empty"),
        ("send_mail", {"member_id": "ME-1", "template": "paused", "subject": FULL}, "ME-1"),
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


async def test_what_has_ended_has_no_licences_and_never_begins_again(
    client: EnvClient, episode: Any
):
    assert not (await client.call(episode, "end_subscription", subscription_id=GONE)).is_error
    again: dict[str, dict[str, Any]] = {
        "set_renewal": {"subscription_id": GONE, "renews": True},
        "change_plan": {"subscription_id": GONE, "plan": "business", "effective": "now"},
    }
    for tool, arguments in again.items():
        answer = await client.call(episode, tool, **arguments)
        assert "ended on 2026-06-17" in answer.content
    await client.seal(episode)
    left = await client.query(episode, f"SELECT * FROM licences WHERE subscription_id = '{GONE}'")
    assert left == []


async def test_a_sign_off_opens_only_the_correction_that_it_approves(
    client: EnvClient, episode: Any
):
    ask = {"matter": "correction", "subject": CREDIT["bill_id"]}
    for amount in (1200.0, 1500.01):
        await client.call(episode, "ask_sign_off", **ask, amount=amount)
    approved = CREDIT["sign_off_id"]
    waiting = f"SO-{int(approved[3:]) + 1}"

    async def credit(sign_off: str, amount: float) -> bool:
        arguments = {**CREDIT, "amount": amount, "sign_off_id": sign_off}
        return not (await client.call(episode, "issue_credit_note", **arguments)).is_error

    assert not await credit(waiting, 1200.0)
    assert not await credit(approved, 1199.0)
    assert await credit(approved, 1200.0)
    assert not await credit(approved, 1200.0)


async def test_a_tax_id_ends_the_tax_of_later_bills_only_where_the_law_says_so(
    client: EnvClient, episode: Any
):
    dutch = golden("tax-id-at-last", "set_billing_detail")
    german = {**dutch, "account_id": golden("owner-retires", "show_account")["account_id"]}
    for arguments in (dutch, german):
        assert not (await client.call(episode, "set_billing_detail", **arguments)).is_error
    await client.seal(episode)
    query = "SELECT country, tax_rate::text FROM accounts WHERE account_id IN ('{}', '{}')"
    rows = await client.query(episode, query.format(dutch["account_id"], german["account_id"]))
    assert {row["country"]: row["tax_rate"] for row in rows} == {"NL": "0.0", "DE": "19.0"}


async def test_every_charge_of_a_golden_run_is_what_the_policy_reckons(
    client: EnvClient, episode: Any
):
    await client.seal(episode)
    prices = await client.query(episode, "SELECT * FROM plan_prices")
    listed = {(p["plan"], p["currency"], p["cycle"]): Decimal(str(p["seat_price"])) for p in prices}
    reckoned = 0
    for slug in golden.slugs:
        calls = golden.of(slug)
        bills = [call["arguments"] for call in calls if call["tool"] == "issue_bill"]
        if not bills:
            continue
        query = (
            "SELECT plan, cycle, seats, seat_price, currency, period_end - date '2026-06-17' + 1 AS days_left,"
            " period_end - period_start + 1 AS days FROM subscriptions JOIN accounts USING (account_id)"
            f" WHERE subscription_id = '{bills[0]['subscription_id']}'"
        )
        sub = (await client.query(episode, query))[0]
        seats, own, full = sub["seats"], Decimal(str(sub["seat_price"])), Decimal(0)
        for call in calls:
            if call["tool"] == "change_seats":
                added, seats = call["arguments"]["seats"] - seats, call["arguments"]["seats"]
                full = added * own
            elif call["tool"] == "change_plan":
                new = listed[call["arguments"]["plan"], sub["currency"], sub["cycle"]]
                full = seats * (new - own)
            elif call["tool"] == "issue_bill":
                part = full * sub["days_left"] / sub["days"]
                cents = part.quantize(Decimal("0.01"), ROUND_HALF_UP)
                assert Decimal(str(call["arguments"]["net"])) == cents, slug
                reckoned += 1
    assert reckoned >= 6


async def test_the_seed_agrees_with_itself(client: EnvClient, episode: Any):
    await client.seal(episode)
    for query in (
        "SELECT subscription_id FROM subscriptions JOIN licences USING (subscription_id)"
        " GROUP BY subscription_id, seats HAVING count(*) > seats",
        "SELECT subscription_id FROM subscriptions JOIN plans USING (plan)"
        " WHERE seats NOT BETWEEN min_seats AND max_seats",
        "SELECT bill_id FROM bills JOIN bill_lines USING (bill_id)"
        " GROUP BY bill_id, net HAVING sum(quantity * unit_price) <> net",
        "SELECT bill_id FROM bills LEFT JOIN incoming_payments AS paid USING (bill_id)"
        " WHERE bills.status = 'paid' AND paid.status IS DISTINCT FROM 'settled'",
        "SELECT bill_id FROM bills JOIN incoming_payments AS paid USING (bill_id)"
        " WHERE bills.status = 'paid' AND paid.amount <> gross",
        "SELECT bill_id FROM bills JOIN subscriptions USING (subscription_id)"
        " WHERE bills.account_id <> subscriptions.account_id",
        "SELECT bill_id FROM bills AS b JOIN subscriptions AS s USING (subscription_id)"
        " WHERE s.status = 'trial'",
        "SELECT bill_id FROM bills JOIN dunning_cases USING (bill_id) WHERE status <> 'open'",
        "SELECT payout_id FROM payouts WHERE amount > 200 AND sign_off_id IS NULL",
        "SELECT payout_id FROM payouts JOIN incoming_payments USING (payment_id)"
        " WHERE NOT EXISTS (SELECT FROM ledger_entries AS entry"
        " WHERE entry.bill_id = incoming_payments.bill_id AND entry.amount = payouts.amount)",
        "SELECT account_id FROM accounts WHERE status <> 'closed' AND NOT EXISTS"
        " (SELECT FROM members WHERE members.account_id = accounts.account_id AND role = 'owner')",
    ):
        assert await client.query(episode, query) == [], query
