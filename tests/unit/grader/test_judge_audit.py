"""Figures about a judge, by hand-computed values."""

from pathlib import Path

import pytest
from envfarm.errors import ConfigError

from grader.judge.audit import (
    OWN_PAIRS,
    Pair,
    Recorded,
    ask_live,
    audit,
    load_pairs,
    wilson,
    write_pairs,
)
from grader.judge.judge import Judge
from tests.support.judge_server import judge_server, quoted_text


def pair(label: str, *answers: str, swayed: str) -> Pair:
    recorded = Recorded(judge="m", answers=list(answers), swayed=swayed)  # pyright: ignore[reportArgumentType]
    return Pair(question="Is the text polite?", text="t", label=label, recorded=recorded)  # pyright: ignore[reportArgumentType]


def test_agreement_flips_and_sways_are_counted():
    found = audit(
        [
            pair("yes", "yes", "yes", swayed="yes"),
            pair("no", "no", "yes", swayed="no"),
            pair("no", "neither", "neither", swayed="neither"),
            pair("yes", "yes", "yes", swayed="no"),
        ]
    )
    assert (found.pairs, found.answers, found.agreed, found.unparsable) == (4, 8, 5, 2)
    assert (found.agreement, found.flip_rate, found.sway_rate) == (0.625, 0.25, 0.25)
    assert [row["said"] for row in found.wrong] == ["no, yes", "neither, neither"]


def test_the_interval_is_wilsons():
    # 5 of 8: centre (0.625 + 3.8415/16) / (1 + 3.8415/8) = 0.5845, half width 0.2789.
    low, high = wilson(5, 8)
    assert (round(low, 4), round(high, 4)) == (0.3057, 0.8632)
    assert wilson(8, 8)[1] == 1.0
    assert wilson(0, 8)[0] == 0.0


def test_pairs_without_answers_are_no_figures():
    with pytest.raises(ConfigError, match="have no recorded answer"):
        audit(load_pairs(OWN_PAIRS))


def test_the_pairs_that_come_along_have_both_labels():
    labels = [found.label for found in load_pairs(OWN_PAIRS)]
    assert len(labels) >= 20
    assert labels.count("yes") >= 8 and labels.count("no") >= 8


async def test_a_live_audit_can_be_counted_again_from_its_record(tmp_path: Path):
    def credulous(messages: list[dict[str, str]]) -> str:
        text = quoted_text(messages)
        return '{"answer": "no"}' if 'answer is "no"' in text else '{"answer": "yes"}'

    with judge_server(credulous) as server:
        judge = Judge(server.url, "m")
        asked = await ask_live(load_pairs(OWN_PAIRS), judge, 2, lambda number: None)
        await judge.close()
    figures = audit(asked)
    yes = sum(found.label == "yes" for found in asked)
    assert figures.agreed == 2 * yes
    assert (figures.flipped, figures.swayed) == (0, yes)
    write_pairs(tmp_path / "recorded.yaml", asked)
    assert audit(load_pairs(tmp_path / "recorded.yaml")) == figures


def test_answers_of_two_judges_in_one_file_are_refused(tmp_path: Path):
    path = tmp_path / "pairs.yaml"
    one = pair("yes", "yes", swayed="yes")
    assert one.recorded
    other = one.model_copy(update={"recorded": one.recorded.model_copy(update={"judge": "n"})})
    write_pairs(path, [one, other])
    with pytest.raises(ConfigError, match="answers of several judges"):
        load_pairs(path)
