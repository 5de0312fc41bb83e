"""The appointments desk's tools on real Postgres: what they refuse, what they take along, and a seed that agrees with itself."""

from typing import Any

import pytest

from tests.support.env_server import EnvClient
from tests.support.golden_calls import GoldenCalls

DOMAIN, OPENED = "clinic", "move-third-time"
golden = GoldenCalls(DOMAIN)

MOVE = golden("move-third-time", "move_appointment")
ASK = golden("move-third-time", "request_lead_approval")
BOOK = golden("book-dermatology", "book_appointment")
OTHER = golden("insurer-while-it-lasts", "book_appointment")
ASKED = golden("insurer-asked-already", "book_appointment")
WAIVE = golden("waive-exactly-sixty", "waive_visit_fee")
PROXY = golden("proxy-for-daughter", "grant_proxy")
CURRENT = golden("proxy-from-visits-to-everything", "grant_proxy")
ENTRY = golden("earlier-and-first", "close_waiting_entry")
EURO = golden("late-in-euros", "raise_visit_fee")
DONE = golden("review-within-six-months", "show_appointment")["appointment_id"]
HEART = {**BOOK, "visit_type": "cardio_first"}
REMIND = {"appointment_id": MOVE["appointment_id"], "channel": "sms"}


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("find_patient", {"email": "nobody@example.com"}, "nobody@example.com"),
        ("show_patient", {"patient_id": "PT-1"}, "PT-1"),
        ("show_appointment", {"appointment_id": "AP-1"}, "AP-1"),
        ("list_visit_types", {"specialty": "dentistry"}, "specialty"),
        ("book_appointment", {**BOOK, "slot_id": "SL-1"}, "SL-1"),
        ("book_appointment", {**BOOK, "referral_id": OTHER["referral_id"]}, "is not of"),
        ("book_appointment", {**BOOK, "referral_id": "AU-1"}, "AU-1"),
        ("book_appointment", {**BOOK, "referral_id": "PT-1001"}, "no letter"),
        ("book_appointment", HEART, "not for cardio_first"),
        ("book_appointment", {**ASKED, "payer": "insurer", "authorisation_id": "AU-9"}, "AU-9"),
        ("book_appointment", {**OTHER, "payer": "self"}, "check"),
        ("move_appointment", {**MOVE, "decision_id": "LD-1"}, "LD-1"),
        ("move_appointment", {**MOVE, "appointment_id": DONE}, "is completed"),
        ("cancel_appointment", {"appointment_id": DONE, "how": "cancelled"}, "is completed"),
        ("set_reminder", {**REMIND, "day": "2026-10-05"}, "not after today"),
        ("set_reminder", {**REMIND, "day": "2 days before"}, "day"),
        ("set_interpreter", {"appointment_id": DONE, "language": "polish"}, "is completed"),
        ("raise_visit_fee", EURO, "is booked"),
        ("raise_visit_fee", {**EURO, "amount": 1.005}, "is booked"),
        ("waive_visit_fee", {**WAIVE, "amount": 60.01}, "too much"),
        ("waive_visit_fee", {**WAIVE, "amount": 0.0}, "above zero"),
        ("request_authorisation", {"patient_id": BOOK["patient_id"], "visit_type": "derm_first"}, "no insurer"),
        ("set_contact", {"patient_id": BOOK["patient_id"], "detail": "channel", "value": "fax"}, "channel"),
        ("grant_proxy", {**PROXY, "until": "31 December"}, "until"),
        ("grant_proxy", {**CURRENT, "scope": "visits"}, "a_proxy_once"),
        ("end_proxy", {"proxy_id": "PX-1"}, "PX-1"),
        ("message_patient", {"patient_id": "PT-1", "template": "moved", "subject": DONE}, "PT-1"),
        ("write_audit", {"subject": "SL-1", "action": "moved", "detail": "x"}, "is no patient"),
        ("write_audit", {"subject": DONE, "action": "hospital_stay", "detail": "x"}, "action"),
        ("write_audit", {"subject": DONE, "action": "moved", "detail": " "}, "be empty"),
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


async def test_a_slot_takes_one_visit_and_is_free_again_after_a_cancellation(
    client: EnvClient, episode: Any
):
    first = await client.call(episode, "book_appointment", **BOOK)
    second = await client.call(episode, "book_appointment", **BOOK)
    assert not first.is_error
    assert second.is_error
    assert "one_visit_in_a_slot" in second.content
    new = golden("book-dermatology", "set_reminder")["appointment_id"]
    for how in ("cancelled", "cancelled_late"):
        cancelled = await client.call(episode, "cancel_appointment", appointment_id=new, how=how)
        # What is cancelled cannot be cancelled in another way.
        assert cancelled.is_error == (how == "cancelled_late")
    assert not (await client.call(episode, "book_appointment", **BOOK)).is_error


async def test_a_decision_opens_only_what_it_approves(client: EnvClient, episode: Any):
    for number in (4.0, 3.0, 2.0):
        await client.call(episode, "request_lead_approval", **{**ASK, "amount": number})
    waiting = MOVE["decision_id"]
    third, second = (f"LD-{int(waiting[3:]) + after}" for after in (1, 2))
    for decision, is_refused in ((waiting, True), (second, True), (third, False)):
        move = await client.call(episode, "move_appointment", **{**MOVE, "decision_id": decision})
        assert move.is_error == is_refused, decision


async def test_a_move_drops_the_reminder_and_keeps_the_interpreter_of_the_old_day(
    client: EnvClient, episode: Any
):
    move = golden("move-with-interpreter", "move_appointment")
    assert not (await client.call(episode, "move_appointment", **move)).is_error
    await client.seal(episode)
    where = f"WHERE appointment_id = '{move['appointment_id']}'"
    assert await client.query(episode, f"SELECT * FROM visit_reminders {where}") == []
    left = await client.query(episode, f"SELECT day::text FROM interpreter_bookings {where}")
    assert left == [{"day": "2026-10-19"}]


async def test_a_fee_is_in_the_money_of_the_house_where_the_visit_was(
    client: EnvClient, episode: Any
):
    visit = EURO["appointment_id"]
    await client.call(episode, "cancel_appointment", appointment_id=visit, how="cancelled_late")
    raised = await client.call(episode, "raise_visit_fee", **EURO)
    assert '"EUR"' in raised.content


async def test_every_booking_of_a_golden_run_is_allowed_by_letter_grade_and_hold(
    client: EnvClient, episode: Any
):
    await client.seal(episode)
    slots = {
        row["slot_id"]: row
        for row in await client.query(
            episode,
            "SELECT slot_id, day::text, held_for, grade, site FROM clinic_slots"
            " JOIN clinicians USING (clinician_id)",
        )
    }
    letters = {
        row["referral_id"]: row
        for row in await client.query(
            episode, "SELECT referral_id, priority, status, valid_until::text FROM referral_letters"
        )
    }
    seen = 0
    for slug in golden.slugs:
        for call in golden.of(slug):
            if call["tool"] != "book_appointment":
                continue
            slot = slots[call["arguments"]["slot_id"]]
            letter = letters.get(call["arguments"].get("referral_id"))
            kind = call["arguments"]["visit_type"]
            assert letter is not None or kind.endswith("_review"), slug
            if letter is not None:
                assert letter["status"] == "open", slug
                assert slot["day"] <= letter["valid_until"], slug
                assert slot["held_for"] in (None, letter["priority"]), slug
            if kind.endswith("_first"):
                assert slot["grade"] == "consultant", slug
            seen += 1
    assert seen >= 25


async def test_no_slot_before_the_thirteenth_is_free_but_those_of_the_queues(
    client: EnvClient, episode: Any
):
    await client.seal(episode)
    free = await client.query(
        episode,
        "SELECT slot_id FROM clinic_slots AS s WHERE day BETWEEN '2026-10-06' AND '2026-10-12'"
        " AND NOT EXISTS (SELECT FROM appointments AS a WHERE a.slot_id = s.slot_id"
        " AND status IN ('booked', 'completed', 'no_show'))",
    )
    assert 5 <= len(free) <= 8


async def test_the_seed_agrees_with_itself(client: EnvClient, episode: Any):
    await client.seal(episode)
    for query in (
        "SELECT appointment_id FROM visits WHERE status = 'booked' AND day < '2026-10-05'",
        "SELECT appointment_id FROM visits WHERE status IN ('completed', 'no_show') AND day >= '2026-10-05'",
        "SELECT a.appointment_id FROM appointments AS a JOIN referral_letters AS r USING (referral_id)"
        " JOIN visit_types USING (visit_type)"
        " WHERE a.patient_id <> r.patient_id OR r.specialty <> visit_types.specialty",
        "SELECT a.appointment_id FROM appointments AS a JOIN cover_authorisations AS c USING (authorisation_id)"
        " WHERE a.patient_id <> c.patient_id OR a.visit_type <> c.visit_type",
        "SELECT referral_id FROM referral_letters JOIN appointments USING (referral_id)"
        " WHERE appointments.status IN ('booked', 'completed', 'no_show')"
        " GROUP BY referral_id, visits HAVING count(*) > visits",
        "SELECT appointment_id FROM visits JOIN visit_reminders AS r USING (appointment_id)"
        " WHERE r.day >= visits.day OR extract(isodow FROM r.day) > 5",
        "SELECT appointment_id FROM visits WHERE status = 'booked' AND day > '2026-10-07'"
        " AND NOT EXISTS (SELECT FROM visit_reminders AS r WHERE r.appointment_id = visits.appointment_id)",
        "SELECT appointment_id FROM interpreter_bookings AS i JOIN visits USING (appointment_id) WHERE i.day <> visits.day",
        "SELECT fee_id FROM visit_fees JOIN visits USING (appointment_id) WHERE visit_fees.currency <> visits.currency",
        "SELECT fee_id FROM visit_fees JOIN fee_waivers USING (fee_id)"
        " GROUP BY fee_id, visit_fees.amount HAVING sum(fee_waivers.amount) > visit_fees.amount",
        "SELECT fee_id FROM visit_fees AS f WHERE (status = 'waived') <> EXISTS"
        " (SELECT FROM fee_waivers AS w WHERE w.fee_id = f.fee_id AND w.amount = f.amount)",
        "SELECT waiting_id FROM waiting_entries AS w JOIN referral_letters AS r USING (referral_id)"
        " JOIN visit_types USING (visit_type) WHERE w.patient_id <> r.patient_id OR w.priority <> r.priority"
        " OR r.specialty <> visit_types.specialty OR w.since < r.received_on",
        "SELECT patient_id, visit_type FROM waiting_entries WHERE status = 'waiting'"
        " GROUP BY 1, 2, site HAVING count(*) > 1",
        "SELECT patient_id, visit_type FROM appointments WHERE status = 'booked' AND visit_type <> 'physio_session'"
        " GROUP BY 1, 2 HAVING count(*) > 1",
        "SELECT slot_id FROM clinic_slots JOIN appointments USING (slot_id) JOIN visit_types USING (visit_type)"
        " WHERE clinic_slots.minutes < visit_types.minutes",
    ):  # fmt: skip
        assert await client.query(episode, query) == [], query
