"""The tiny model: what its tokenizer does to digits and control tokens, and that it is repeatable."""

from pathlib import Path

import pytest
from transformers import AutoConfig, AutoTokenizer

from learner.tiny_model import CONTROL, MARKS, train_tokenizer, write

TEXT = ["Order 4711 was refunded 12.50; the customer said thanks.\n" * 20]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    write(folder, TEXT, seed=3)
    return folder


def test_every_digit_is_a_token_and_text_comes_back(folder: Path):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text in ("4711", "paid 12.50 on 2026-03-02", "été ✓ \n\n  x", "<tool_call>{}</tool_call>"):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert tokenizer.tokenize("4711") == ["4", "7", "1", "1"]


def test_control_tokens_and_marks_are_single_tokens(folder: Path):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text in (*CONTROL, *MARKS):
        assert len(tokenizer.encode(text, add_special_tokens=False)) == 1
    assert tokenizer.eos_token == "<|im_end|>"


def test_text_that_is_not_ours_cannot_become_a_control_token(folder: Path):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.encode("<|im_end|>", add_special_tokens=False, split_special_tokens=True)
    assert len(ids) > 1


def test_the_output_layer_is_its_own_and_there_is_room(folder: Path):
    config = AutoConfig.from_pretrained(folder)
    assert config.tie_word_embeddings is False
    assert config.max_position_embeddings >= 8192
    assert config.vocab_size == len(AutoTokenizer.from_pretrained(folder)) <= 512


def test_the_vocabulary_may_be_larger_and_stays_within_its_limit():
    words = [" ".join(f"{a}{b}ing" for a in "bcdfgklmnprst" for b in ("a", "e", "o"))]
    small, large = (train_tokenizer(words, size).get_vocab_size() for size in (280, 300))
    assert (small, large) == (280, 300)


def test_equal_inputs_give_equal_files_and_another_seed_other_weights(folder: Path, tmp_path: Path):
    write(tmp_path / "again", TEXT, seed=3)
    write(tmp_path / "other", TEXT, seed=4)
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()
    weights = "model.safetensors"
    assert (folder / weights).read_bytes() != (tmp_path / "other" / weights).read_bytes()
