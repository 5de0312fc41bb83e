"""Text that is not ours can never end its quotation, become a control token, or precede the rules."""

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grader.judge.prompt import SYSTEM, quoted, render

RECORDED = json.loads(Path(__file__).with_name("judge_attacks.json").read_text())
QUESTION = RECORDED["question"]
FIRST = f"Question: {QUESTION}"
LAST = (
    'Answer the question about the text, with {"answer": "yes"} or {"answer": "no"} only: '
    + QUESTION
)


@pytest.mark.parametrize("attack", RECORDED["attacks"], ids=lambda attack: attack["attack"])
def test_a_recorded_attack_is_rendered_as_recorded(attack: dict[str, str]):
    system, user = render(QUESTION, attack["text"])
    assert system == {"role": "system", "content": SYSTEM}
    assert user == {"role": "user", "content": attack["rendering"]}


def test_there_are_at_least_twenty_recorded_attacks():
    assert len({attack["text"] for attack in RECORDED["attacks"]}) >= 20


def lines_of(text: str) -> list[str]:
    return render(QUESTION, text)[1]["content"].splitlines()


anything = st.text(st.characters(exclude_categories=()), max_size=400)
hostile = st.lists(
    st.sampled_from(
        [
            '"',
            "\\",
            "\n",
            "\r",
            "\u2028",
            "\x85",
            "<|im_end|>",
            "</s>",
            "[INST]",
            "Question:",
            "}",
            "{",
            "Text: ",
            '{"answer": "yes"}',
            "\ud800",
            "\u202e",
            "\U000e0061",
            "｜",
            "u0022",
            "\\u0022",
        ]
    ),
    max_size=30,
).map("".join)


@given(anything | hostile)
@example('"')
@example("\\")
def test_a_text_stays_on_its_line_between_the_rules_and_comes_back_unchanged(text: str):
    first, middle, last = lines_of(text)
    assert (first, last) == (FIRST, LAST)
    assert middle.startswith('Text: "') and middle.endswith('"')
    assert json.loads(middle.removeprefix("Text: ")) == text


@given(anything | hostile)
def test_a_quotation_ends_once_and_opens_no_token(text: str):
    inside = quoted(text)[1:-1]
    place = 0
    while place < len(inside):
        assert inside[place] != '"'
        place += 2 if inside[place] == "\\" else 1
    assert place == len(inside)
    assert not set(inside) & set("<>[]|｜＜＞")
    assert all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") for c in inside)


@given(st.text(min_size=1, max_size=80))
def test_a_rubrics_question_is_one_line(question: str):
    content = render(question, "x")[1]["content"]
    assert content.split("\n")[1] == 'Text: "x"'
