"""Tests of datasets in the sandbox: what they may look at, how the judge answers them, two verdicts."""

import json
from pathlib import Path
from typing import Any

import pytest
from envfarm.errors import ConfigError

from grader.check_kinds import DatasetTest
from grader.checks.dataset_test import asked, asks_listed_questions, run, upstream_yes
from grader.checkset import load_checkset
from grader.dataset_effects import completed, told
from grader.evidence import Change
from grader.judge.judge import Answer, NoAnswer
from grader.sandbox.dataset_context import MAX_TEXT_BYTES
from grader.sandbox.sandbox import Sandbox
from grader.verdict import CannotRun, UpstreamVerdict
from tests.support.shop_world import START, evidence, golden

ROOT = Path(__file__).parents[2] / "support/graded_dataset"
CALL = {"T": "ToolCall", "name": "lend", "arguments": {"book": "B-1"}, "id": "c1"}
TALK: list[dict[str, Any]] = [
    {"T": "Text", "role": "system", "content": "Lend books."},
    {"T": "Text", "role": "user", "content": "A book?"},
    {"T": "Text", "role": "assistant", "content": "hidden", "metadata": {"tag": "think"}},
    {"T": "ParallelToolCall", "tool_calls": [CALL]},
    {"T": "ToolResponse", "name": "lend", "content": "{}", "id": "c1"},
    {"T": "Text", "role": "assistant", "content": "Lent.", "metadata": {"tag": "direct"}},
    {"T": "Text", "role": "assistant", "content": "Which one?"},
    {"T": "Text", "role": "user", "content": "Atlas"},
    {"T": "Text", "role": "assistant", "content": "Here. <DONE>"},
]


def code(*lines: str, head: str = "from thinkingbox.common import Judge, TestContext") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"{head}\n\ndef test_it(x: TestContext, judge: Judge):\n{body}\n__tb_test_fn = test_it\n"


class ScriptedJudge:
    identity = "scripted"

    def __init__(self, *words: str):
        self.words = list(words)
        self.heard: list[tuple[str, str]] = []

    async def ask(self, question: str, text: str) -> Answer:
        self.heard.append((question, text))
        said = self.words.pop(0)
        if said == "yes" or said == "no":
            return Answer(said, cached=False, tokens=3)
        raise NoAnswer(said)


async def judged(
    *lines: str,
    judge: Any = None,
    reply: str = "Here. <DONE>",
    talk: Any = TALK,
    effects: Any = None,
    head: str | None = None,
) -> tuple[Any, UpstreamVerdict]:
    """Our result, or why there is none; and theirs."""
    test = code(*lines) if head is None else code(*lines, head=head)
    check = DatasetTest(name="t", kind="dataset_test", code=test)
    rows = [json.dumps({"server": name, "effects": e}) for name, e in (effects or {}).items()]
    theirs: list[UpstreamVerdict] = []
    state = (evidence(START), golden(START), rows, reply, talk, Sandbox(), judge, theirs)
    try:
        ours: Any = await run(check, *state)
    except CannotRun as error:
        ours = str(error)
    (verdict,) = theirs
    return ours, verdict


async def test_the_context_is_the_documented_one():
    ours, theirs = await judged(
        "assert x.response == 'Here. <DONE>' and x.query() == 'A book?'",
        "assert x.effects == {'shelf': {'lent': 1}}",
        "(made,) = x.tool_calls",
        "assert (made.tool_call.name, made.tool_call.arguments) == ('lend', {'book': 'B-1'})",
        "assert made.tool_response.content == '{}'",
        "assert x.tool_direct_responses == ['Lent.']",
        "assert x.transcript(1) == 'Assistant: Here. <DONE>'",
        "assert x.transcript(2) == 'Assistant: Which one?\\n\\nUser: Atlas\\n\\nAssistant: Here. <DONE>'",
        "assert 'hidden' not in x.transcript() and 'Lend books' not in x.transcript()",
        "assert isinstance(x.messages[0], Text) and not x.messages[2].is_visible",
        "x.metadata['seen'] = True",
        "print('not shown')",
        effects={"shelf": {"lent": 1}},
        head="import json\nfrom thinkingbox.common import Judge, TestContext\n"
        "from thinkingbox.common.chat_types import Text",
    )
    assert ours.passed, ours
    assert theirs == UpstreamVerdict(
        harness="thinkingbox", result=True, reward=1.0, is_system_error=False, detail="", line=0
    )


@pytest.mark.parametrize(
    ("line", "ours", "theirs"),
    [
        ("assert x.response == 'no', 'other words'", False, (False, 0.0, False)),
        ("return 1", True, (True, 1.0, False)),
        ("return 0.25", False, (True, 0.25, False)),
        ("return True", True, (True, 1.0, False)),
        ("return 2", "which is no reward", (False, 0.0, True)),
        ("return 'yes'", "which is no reward", (False, 0.0, True)),
        ("x.effects['nobody']", "KeyError", (False, 0.0, True)),
        ("raise SystemExit(0)", "SystemExit", (False, 0.0, True)),
        ("open('/etc/passwd')", "PermissionError", (False, 0.0, True)),
        ("import socket", "socket", (False, 0.0, True)),
        ("x.init_result", "init answered", (False, 0.0, True)),
    ],
)
async def test_how_a_test_ends_makes_both_verdicts(line: str, ours: Any, theirs: tuple):
    found, verdict = await judged(line)
    if isinstance(ours, str):
        assert ours in found
    else:
        assert found.passed is ours
    assert (verdict.result, verdict.reward, verdict.is_system_error) == theirs


async def test_a_failed_assertion_is_told_with_its_line():
    found, verdict = await judged("a = 1", "assert a == 2, 'a is one'")
    # Import, blank line, def, first statement: the assertion is the fifth.
    assert (verdict.detail, verdict.line) == ("a is one", 5)
    assert found.observed == "line 5: a is one"


async def test_a_conversation_that_was_not_sent_is_not_an_empty_one():
    found, verdict = await judged("assert not x.tool_calls", talk=None)
    assert "was not sent" in found and verdict.is_system_error


async def test_each_question_is_asked_once_and_in_order():
    judge = ScriptedJudge("yes", "no", "yes")
    found, _ = await judged(
        "assert judge.text_yesno(x.response, 'Is it done?')",
        "assert judge.text_yesno(x.response, 'Is it done?')",
        "assert judge.no_repeat(x.response, ['Lent.'])",
        "assert judge.compare_yesno('a', 'b', 'Same?')",
        judge=judge,
    )
    assert found.passed and found.judge_tokens == 9 and found.judge == "scripted"
    assert judge.heard[0] == ("Is it done?", "Here. <DONE>")
    assert json.loads(judge.heard[1][1]) == {"first": "Here. <DONE>", "second": "Lent."}
    assert judge.heard[2][0].endswith("Same?") and len(judge.heard) == 3


async def test_no_test_swallows_a_question():
    judge = ScriptedJudge("no")
    found, _ = await judged(
        "try:",
        "    good = judge.yesno('Is one two?')",
        "except BaseException:",
        "    good = True",
        "assert good",
        judge=judge,
    )
    assert not found.passed and judge.heard == [("Is one two?", "")]


@pytest.mark.parametrize(("said", "result"), [("Well, yes.", True), ("maybe", False), ("", False)])
async def test_an_unclear_answer_is_theirs_to_read_and_not_ours(said: str, result: bool):
    found, verdict = await judged("assert judge.yesno('Well?')", judge=ScriptedJudge(said))
    assert "neither yes nor no" in found
    assert (verdict.result, verdict.is_system_error) == (result, False)


@pytest.mark.parametrize(("questions", "is_ours"), [([], False), (["Well?"], True)])
async def test_an_empty_list_of_questions_is_our_error_and_their_pass(
    questions: list[str], is_ours: bool
):
    found, verdict = await judged(
        "for question in x.effects['shelf'].get('rubrics_yesno', []):",
        "    assert judge.yesno(question)",
        judge=ScriptedJudge("yes"),
        effects={"shelf": {"rubrics_yesno": questions}},
    )
    assert verdict.result is True
    assert found.passed if is_ours else "the list is empty" in found


async def test_without_a_judge_there_is_no_verdict():
    found, verdict = await judged("assert judge.yesno('Well?')")
    assert "no judge is configured" in found and verdict.is_system_error


async def test_a_text_too_long_to_be_judged_fails_and_is_not_shown():
    judge = ScriptedJudge()
    line = "assert judge.text_yesno(x.response, 'Is it polite?')"
    found, verdict = await judged(line, reply="x" * MAX_TEXT_BYTES, judge=judge)
    assert not found.passed and not verdict.result and judge.heard == []
    assert f"at most {MAX_TEXT_BYTES}" in verdict.detail


@pytest.mark.parametrize(
    ("said", "yes"),
    [
        ("Yes", True),
        ("yes.", True),
        ("Yes, because no", True),
        ("I say: yes", True),
        ("no", False),
        ("yesterday", False),
        ("not yes but no", False),
        ("", False),
    ],
)
def test_which_answers_count_as_yes_there(said: str, yes: bool):
    assert upstream_yes(said) is yes


def test_whether_a_test_asks_a_listed_question():
    listed = "def ask(x, judge):\n    x.effects['s'].get('rubrics_yesno', [])\n"
    assert asks_listed_questions(code("ask(x, judge)", head=listed))
    assert not asks_listed_questions(code("pass", head=listed))
    assert not asks_listed_questions(code("judge.yesno('Well?')"))


def test_what_is_asked_with_prompts_of_its_own():
    assert asked({"method": "evaluate_bool", "system": "Good?", "user": "text"}) == (
        "Good?",
        "text",
    )


def test_the_golden_part_of_effects_is_the_golden_runs_result():
    def effects(state: Any) -> dict[str, Any]:
        return {
            "initial_db_state": {"rows": []},
            "result_db_state": {"rows": state},
            "result_db_hash": f"hash of {state}",
            "golden_db_state": {"rows": []},
            "golden_db_hash": "hash of []",
            "diff": [],
        }

    seen = {"s": effects([1, 2]), "odd": None}
    whole = completed(seen, {"s": effects([1])}, {"s": {"rubrics_yesno": ["Well?"]}})
    assert whole["odd"] is None
    assert whole["s"] == {
        "initial_db_state": {"rows": []},
        "result_db_state": {"rows": [1, 2]},
        "result_db_hash": "hash of [1, 2]",
        "golden_db_state": {"rows": [1]},
        "golden_db_hash": "hash of [1]",
        "diff": [{"path": "rows[1]", "type": "only in the result", "result": 2, "golden": None}],
        "rubrics_yesno": ["Well?"],
    }
    assert seen["s"]["golden_db_hash"] == "hash of []"


def test_effects_are_those_after_the_last_change():
    rows = ['{"server": "a", "effects": 1}', '{"server": "b", "effects": 2}']
    change = Change(
        table="server_effects",
        op="update",
        key='{"server": "b"}',
        before=rows[1],
        after='{"server": "b", "effects": 3}',
    )
    other = Change(table="books", op="insert", key='{"id": 1}', after='{"id": 1}')
    assert told(rows, [change, other]) == {"a": 1, "b": 3}


def test_an_imported_file_becomes_checks_of_ours():
    found = load_checkset(ROOT)
    assert found.task_ids() == ["shelf/lend-one", "shelf/look-only", "shelf/no-questions"]
    file = found.find("shelf/lend-one")
    assert [action.tool for action in file.golden.actions] == ["look", "lend"]
    assert file.golden.actions[1].arguments == {"book": "B-1", "person": "Ada"}
    (check,) = file.checks
    assert isinstance(check, DatasetTest) and file.is_foreign
    assert check.kept == {
        "shelf": {
            "rubrics": [],
            "rubrics_yesno": ["Does the message name the book that was lent?"],
        }
    }


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"test_code": "x = ("}, "not valid Python"),
        ({"test_code": "def f(x): pass"}, "the last line must be"),
        ({"more": 1}, "more"),
        ({"golden": {"s": {"golden_test_case": {"tool_interactions": ["lend"]}}}}, "actions"),
    ],
)
def test_what_is_wrong_with_an_imported_file_is_told(tmp_path: Path, change: dict, why: str):
    content = json.loads((ROOT / "shelf/private/thinkingbox/lend-one.json").read_text())
    place = tmp_path / "shelf/private/thinkingbox/lend-one.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({**content, **change}))
    with pytest.raises(ConfigError, match=why) as caught:
        load_checkset(tmp_path)
    assert str(place) in caught.value.message
