"""The tiny model: what its tokenizer does to digits and control tokens, and that it is repeatable."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from learner import copying
from learner.copying import teach_copying
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


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_taught_to_copy_it_knows_what_follows_in_a_string_that_it_has_seen():
    torch.manual_seed(3)
    config = Qwen3Config(
        vocab_size=8,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
    )
    model = Qwen3ForCausalLM(config)
    assert teach_copying(model, [0, 1, 2, 3], 1, seed=3) > 1.3
    assert teach_copying(model, [0, 1, 2, 3], 150, seed=3) < 0.8 < math.log(4)


def test_lines_repeat_a_string_and_only_the_repetition_is_learned():
    ids, repeated = copying._lines(torch.arange(50), torch.Generator().manual_seed(1))
    for line, where in zip(ids.tolist(), repeated.tolist(), strict=True):
        start = where.index(True) - 1
        assert line[start : start + copying.LENGTH] == line[: copying.LENGTH]
        assert sum(where) == copying.LENGTH - 1
        assert copying.LENGTH <= start <= copying.LENGTH + copying.LONGEST_GAP
