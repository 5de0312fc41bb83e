"""Before ranks train together: every disagreement is named with its rank and machine."""

from dataclasses import replace

import pytest

from learner.config import load
from learner.preflight import Facts, checkpoint_bytes, problems
from tests.support.learner_process import CONFIG

FACTS = Facts(
    machine="a",
    versions={"torch": "2.13.0"},
    recipe="r" * 64,
    model="m",
    weight_bytes=4_000_000,
    sees_run_dir=True,
    free_bytes=10**9,
    devices=8,
)


def test_ranks_that_agree_have_no_problem():
    assert list(problems([FACTS, FACTS], load(CONFIG, []))) == []


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"versions": {"torch": "2.12.0"}}, "rank 1 on b has torch 2.12.0, rank 0 has 2.13.0"),
        ({"recipe": "s" * 64}, "rank 1 on b has another recipe (ssssssssssss…, rank 0 rrrr"),
        ({"model": "n"}, "rank 1 on b has another model"),
        ({"sees_run_dir": False}, "rank 1 on b does not see rank 0's run.dir"),
        ({"devices": 0}, "rank 1 on b sees 0 accelerators, rank 0 8"),
    ],
)
def test_a_rank_that_differs_is_named(other: dict, words: str):
    (found,) = problems([FACTS, replace(FACTS, machine="b", **other)], load(CONFIG, []))
    assert words in found


def test_a_disk_without_room_for_a_checkpoint_is_refused():
    """float32: a million values, each with two moments: 12 MB."""
    config = load(CONFIG, [])
    assert checkpoint_bytes(config, 4_000_000) == 12_000_000
    small = replace(FACTS, free_bytes=11_000_000)
    (found,) = problems([small, FACTS], config)
    assert "0.0 GB free" in found
    reduced = load(CONFIG, ["model.dtype=bfloat16", "model.zero_stage=1"])
    assert checkpoint_bytes(reduced, 4_000_000) == 28_000_000
