"""Guards of a neighbour's record, only where a run that looks right touches it; what a reply has to say."""

import re

from envfarm_cli.authoring.case_pool import others_untouched, reply_checks, wrong_calls

RECORDS = (("bill", "other_bill", "bills", "bill_id"), ("account", "other_account", "accounts", "account_id"))  # fmt: skip
NEW_ROWS = {
    "credit": ("credit_notes", ["bill_id", "reason"]),
    "mail": ("outbox", ["member_id", "subject"]),
}
IDS = {"bill": "BI-1", "other_bill": "BI-2", "other_account": "AC-2"}


def call(tool: str, **arguments: object) -> dict[str, object]:
    return {"tool": tool, "arguments": arguments}


def guards(right: list[dict[str, object]], *wrong: dict[str, object]) -> dict[str, object]:
    checks = others_untouched(IDS, RECORDS, NEW_ROWS, right, wrong)
    assert {check["kind"] for check in checks} <= {"untouched"}
    return {check["name"]: (check["tables"], check["where"]) for check in checks}


def test_a_record_that_a_wrong_run_changes_must_stay():
    assert guards([], call("hold_bill", bill_id="BI-2"), call("hold_bill", bill_id="BI-1")) == {
        "the other bill": (["bills"], {"bill_id": "BI-2"})
    }


def test_what_a_wrong_run_writes_about_it_must_not_be_there():
    wrong = (call("credit", bill_id="BI-2", reason="late"), call("mail", member_id="ME", subject="BI-2"))  # fmt: skip
    assert guards([], *wrong) == {
        "the other bill: credit_notes": (["credit_notes"], {"bill_id": "BI-2"}),
        "the other bill: outbox": (["outbox"], {"subject": "BI-2"}),
    }


def test_what_the_right_run_writes_too_is_left_to_the_state_check():
    mail = call("mail", member_id="ME", subject="BI-2")
    assert guards([mail], mail, call("credit", bill_id="BI-2")) == {
        "the other bill: credit_notes": (["credit_notes"], {"bill_id": "BI-2"})
    }


def test_a_record_that_no_wrong_run_names_has_no_guard():
    assert (
        guards([], call("hold_bill", bill_id="BI-1"), call("mail", member_id="ME", subject="BI-1"))
        == {}
    )


def test_wrong_calls_are_those_of_the_misses_and_the_unasked_write():
    case = {"misses": {"one": ["a", "b"], "two": ["c"]}, "extra": "d"}
    found = wrong_calls(case, lambda run: [call(name) for name in run])
    assert [made["tool"] for made in found] == ["a", "b", "c", "d"]


def test_words_that_mean_the_same_are_a_check_of_their_own():
    case = {"says": ["$job", ["cancelled", "called off"]], "never_says": ["Kainz"], "money": 24.5}
    named, said = reply_checks(case, lambda text: text.replace("$job", "J-1"))
    assert (named["contains_all"], named["contains_none"]) == (["J-1"], ["Kainz"])
    assert re.search(named["matches"], "24,50 EUR") and not re.search(named["matches"], "124.50")
    assert said["name"] == "says: cancelled"
    for reply in ("Cancelled.", "It is called off."):
        assert re.search(said["matches"], reply)
    assert not re.search(said["matches"], "We recalled offers.")


def test_a_case_that_says_nothing_but_one_of_several_words_has_no_empty_check():
    (only,) = reply_checks({"says": [["free", "no charge"]]}, str)
    assert only["matches"] == r"(?i)\b(free|no charge)"


def test_a_day_and_an_hour_are_read_as_people_write_them():
    day, hour = reply_checks({"says": ["21 October", "16:10"]}, str)
    for reply in ("Wed 21 October,", "the 21st of Oct", "October 21st at", "21/10", "2026-10-21."):
        assert re.search(day["matches"], reply), reply
    for reply in ("20 October", "121 October", "October 2", "21/11", "2026-10-20"):
        assert not re.search(day["matches"], reply), reply
    for reply in ("at 16:10", "16.10.", "4:10 pm", "4.10 p.m."):
        assert re.search(hour["matches"], reply), reply
    for reply in ("16:1", "4:10 am", "14:10 pm", "16:100"):
        assert not re.search(hour["matches"], reply), reply
    (early,) = reply_checks({"says": ["9:40"]}, str)
    assert re.search(early["matches"], "09:40") and not re.search(early["matches"], "19:40")
