"""Renamed copies: other ids, the same everywhere in a conversation, and nothing else changed."""

import random
from pathlib import Path

import pytest
from envfarm.record_frames import HEAD, ROLLOUT, read_rollouts
from envfarm.v1 import group_pb2
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from envfarm_cli.renamed_copies import Renaming, write_renamed_copies
from learner.tiny_model import train_tokenizer

TEXT = 'Refund J412, not J900. I am C41. {"days":12,"owner":"C41","price":161} It is 7 A 3.'
TOKENIZER: Tokenizer = train_tokenizer([TEXT, "Who owns J or C?"], 400)
RENAMING = Renaming(TOKENIZER)


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text).ids


def renamed(text: str, seed: int) -> str:
    return TOKENIZER.decode(RENAMING.rename(ids(text), random.Random(seed)))


def test_an_id_is_a_capital_and_two_digits_or_more():
    tokens = ids(TEXT)
    found = [TOKENIZER.decode([tokens[at] for at in place]) for place in RENAMING.places(tokens)]
    assert found == ["412", "900", "41", "41"]


@given(st.integers(0, 10_000))
def test_only_ids_change_and_equal_ones_stay_equal(seed: int):
    before, after = TEXT.split(), renamed(TEXT, seed).split()
    job, other, owner = after[1][:4], after[3][:4], after[6][:3]
    assert job != other and owner[1:] == job[1:3]
    assert "0" not in (job[1], other[1], owner[1])
    expected = [
        word.replace("J412", job).replace("J900", other).replace("C41", owner) for word in before
    ]
    assert after == expected


def test_seeds_decide_the_ids():
    found = {renamed("J412", seed) for seed in range(60)}
    assert len(found) > 40
    assert renamed("J412", 5) == renamed("J412", 5)


def test_a_name_is_the_same_other_name_at_a_beginning_and_after_a_space():
    names = ["Lea", "Otto", "Max", "Zed Zed"]
    text = 'I am Lea, not Otto. {"owner":"Lea"} Zed Zed'
    tokenizer = train_tokenizer([text, "Lea Otto Max", "Otto", "Max", " Max"], 500)
    renaming, ids = Renaming(tokenizer, names), tokenizer.encode(text).ids
    seen = set()
    for seed in range(40):
        after = tokenizer.decode(renaming.rename(ids, random.Random(seed)))
        lea, otto = after.split()[2][:-1], after.split()[4][:-1]
        assert lea != otto and {lea, otto} < set(names)
        assert after == f'I am {lea}, not {otto}. {{"owner":"{lea}"}} Zed Zed'
        seen.add(lea)
    assert seen == {"Lea", "Otto", "Max"}


def recorded(rollout_id: str, text: str) -> group_pb2.Rollout:
    rollout = group_pb2.Rollout(rollout_id=rollout_id)
    rollout.trajectory.rollout_id = rollout_id
    rollout.trajectory.token_ids.extend(ids(text))
    rollout.trajectory.loss_mask = b"\x01" * len(ids(text))
    rollout.trajectory.final_reply = "J412"
    rollout.verdict.reward = 1.0
    return rollout


def copies_of(folder: Path, rollouts: list[group_pb2.Rollout]) -> list[group_pb2.Rollout]:
    """Three copies of each, with seed 1."""
    (folder / "job").mkdir(parents=True)
    with (folder / "job" / "records.bin").open("wb") as file:
        for rollout in rollouts:
            data = rollout.SerializeToString()
            file.write(HEAD.pack(ROLLOUT, len(data)) + data)
    tokenizer, out = folder / "tokenizer.json", folder / "copies" / "records.bin"
    TOKENIZER.save(str(tokenizer))
    count = write_renamed_copies(folder / "job", out, tokenizer, names=(), copies=3, seed=1)
    copies = list(read_rollouts(out))
    assert len(copies) == count
    return copies


def test_copies_keep_mask_and_verdict_and_have_ids_of_their_own(tmp_path: Path):
    rollout = recorded("r1", TEXT)
    copies = copies_of(tmp_path, [rollout])
    assert [copy.rollout_id for copy in copies] == ["r1~1", "r1~2", "r1~3"]
    assert len({tuple(copy.trajectory.token_ids) for copy in copies}) == 3
    for copy in copies:
        assert copy.trajectory.loss_mask == rollout.trajectory.loss_mask
        assert copy.verdict == rollout.verdict
        assert copy.trajectory.final_reply == ""


def test_the_order_in_which_attempts_ended_changes_no_copy(tmp_path: Path):
    rollouts = [recorded(f"r{number}", f"{TEXT} J{number}00") for number in range(1, 5)]
    one = copies_of(tmp_path / "one", rollouts)
    assert copies_of(tmp_path / "other", rollouts[2:] + rollouts[:2]) == one


@pytest.mark.parametrize("text", ["", "no ids here, 45 euros", "A", "J4"])
def test_text_without_ids_stays_as_it_is(text: str):
    assert RENAMING.rename(ids(text), random.Random(0)) == ids(text)
