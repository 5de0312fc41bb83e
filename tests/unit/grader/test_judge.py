"""The judge's client against a real HTTP server: two possible answers, or none."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from envfarm.errors import ConfigError, GraderError

from grader.check_kinds import RubricCheck
from grader.check_run import Seen, make_runner
from grader.checks import rubric
from grader.checkset import load_checkset
from grader.judge.cache import AnswerCache
from grader.judge.judge import Judge, parse
from grader.judge.prompt import PROMPT_VERSION
from grader.verdict import CannotRun
from tests.support.judge_server import TOKENS, judge_server, quoted_text

QUESTION = "Does the text promise a refund?"
YES, NO = '{"answer": "yes"}', '{"answer": "no"}'


def in_turn(*said: str | int | None) -> Callable[[object], str | int | None]:
    words = iter(said)
    return lambda messages: next(words)


@pytest.mark.parametrize(
    ("said", "word"),
    [
        (YES, "yes"),
        (' {"answer":"no"}\n', "no"),
        ("yes", "yes"),
        ("No.", "no"),
        ("Yes, because the text says so", None),
        ('{"answer": "yes", "why": "x"}', None),
        ('{"answer": "maybe"}', None),
        ('{"answer": true}', None),
        ('["yes"]', None),
        ("", None),
        (f"{YES} {NO}", None),
    ],
)
def test_an_answer_is_exactly_one_word(said: str, word: str | None):
    assert parse(said) == word


async def test_an_answer_is_asked_for_with_a_schema_and_remembered():
    with judge_server(in_turn(YES)) as server:
        judge = Judge(server.url, "m")
        first = await judge.ask(QUESTION, "Your money is on its way.")
        again = await judge.ask(QUESTION, "Your money is on its way.")
        await judge.close()
    assert [(a.word, a.cached) for a in (first, again)] == [("yes", False), ("yes", True)]
    (body,) = server.asked
    assert body["temperature"] == 0
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["answer"]["enum"] == ["yes", "no"]
    assert quoted_text(body["messages"]) == "Your money is on its way."


async def test_what_is_no_answer_is_asked_for_once_more():
    with judge_server(in_turn("Well, it depends", NO)) as server:
        judge = Judge(server.url, "m")
        answer = await judge.ask(QUESTION, "x")
        await judge.close()
    assert answer.word == "no"
    assert [body["seed"] for body in server.asked] == [0, 1]


@pytest.mark.parametrize("said", ["Well", None, ""])
async def test_no_answer_twice_is_ungradable_and_not_no(said: str | None):
    with judge_server(in_turn(said, said)) as server:
        judge = Judge(server.url, "m")
        with pytest.raises(CannotRun, match="neither yes nor no, 2 times"):
            await judge.ask(QUESTION, "x")
        await judge.close()


async def test_trouble_on_the_way_is_an_error_and_no_verdict():
    with judge_server(in_turn(500, 503, 429)) as server:
        judge = Judge(server.url, "m", transport_tries=3)
        with pytest.raises(GraderError, match="answers 429"):
            await judge.ask(QUESTION, "x")
        await judge.close()
    judge = Judge(server.url, "m", transport_tries=2)
    with pytest.raises(GraderError, match="cannot be asked"):
        await judge.ask(QUESTION, "x")
    await judge.close()


async def test_trouble_that_passes_is_not_noticed():
    with judge_server(in_turn(500, YES)) as server:
        judge = Judge(server.url, "m")
        assert (await judge.ask(QUESTION, "x")).word == "yes"
        await judge.close()


async def test_a_refused_key_is_the_operators_matter():
    with judge_server(in_turn(401)) as server:
        judge = Judge(server.url, "m", api_key="wrong")
        with pytest.raises(ConfigError, match="answers 401"):
            await judge.ask(QUESTION, "x")
        await judge.close()


async def test_answers_outlive_the_process_in_a_folder_and_torn_ones_are_asked_again(
    tmp_path: Path,
):
    with judge_server(in_turn(YES, NO)) as server:
        first = Judge(server.url, "m", cache=AnswerCache(tmp_path))
        assert (await first.ask(QUESTION, "x")).word == "yes"
        second = Judge(server.url, "m", cache=AnswerCache(tmp_path))
        assert (await second.ask(QUESTION, "x")).cached
        (file,) = tmp_path.rglob("*.json")
        file.write_text(file.read_text()[:-3])
        third = Judge(server.url, "m", cache=AnswerCache(tmp_path))
        answer = await third.ask(QUESTION, "x")
        for judge in (first, second, third):
            await judge.close()
    assert (answer.word, answer.cached, len(server.asked)) == ("no", False, 2)


async def test_another_model_question_or_text_is_another_answer():
    with judge_server(in_turn(YES, NO, NO, NO)) as server:
        cache = AnswerCache()
        one, other = Judge(server.url, "m", cache=cache), Judge(server.url, "n", cache=cache)
        words = [
            (await one.ask(QUESTION, "x")).word,
            (await other.ask(QUESTION, "x")).word,
            (await one.ask(QUESTION, "x ")).word,
            (await one.ask("Is the text polite in tone?", "x")).word,
        ]
        await one.close()
        await other.close()
    assert words == ["yes", "no", "no", "no"]


async def test_a_rubric_states_who_answered():
    check = RubricCheck(name="r", kind="rubric", question=QUESTION, expect="no")
    with judge_server(in_turn(NO)) as server:
        judge = Judge(server.url, "m")
        result = await rubric.run(check, "We do not refund.", judge)
        await judge.close()
    port = server.url.split("/")[2]
    assert result.passed
    assert result.expected == f"no: {QUESTION}"
    assert (result.observed, result.judge) == ("no", f"m at {port}, prompt {PROMPT_VERSION}")


async def test_a_reply_over_the_limit_fails_and_does_not_escape_the_judge():
    check = RubricCheck(name="r", kind="rubric", question=QUESTION, max_characters=10)
    with judge_server(in_turn()) as server:
        judge = Judge(server.url, "m")
        result = await rubric.run(check, "I refund it all.", judge)
        await judge.close()
    assert (result.passed, result.observed) == (False, "16 characters, at most 10")
    assert server.asked == []


async def test_what_an_answer_took_is_counted_and_a_known_one_took_nothing():
    check = RubricCheck(name="promises", kind="rubric", question=QUESTION, expect="yes")
    with judge_server(in_turn("maybe", YES)) as server:
        judge = Judge(server.url, "m")
        assert (await rubric.run(check, "A refund comes.", judge)).judge_tokens == 2 * TOKENS
        assert (await rubric.run(check, "A refund comes.", judge)).judge_tokens == 0
        await judge.close()


TASK = """task: shop/t
golden: {actions: [], reply: Done.}
checks:
  - {name: end, kind: state}
  - {name: asked, kind: rubric, question: "Is it polite?", expect: yes}
extra_write: {tool: pay}
"""


async def test_without_a_judge_a_rubric_is_ungradable_and_says_what_to_set(tmp_path: Path):
    (tmp_path / "shop/private").mkdir(parents=True)
    (tmp_path / "shop/private/t.yaml").write_text(TASK)
    checkset = load_checkset(tmp_path)
    asked = checkset.find("shop/t").checks[1]
    with pytest.raises(CannotRun, match="no judge is configured: set GRADER_JUDGE_URL"):
        await make_runner(checkset, None).run(asked, cast(Seen, None))
