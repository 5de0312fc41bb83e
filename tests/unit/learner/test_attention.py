"""Which architectures may be packed, held by what packing does to each: equal to alone, or refused."""

import json
from pathlib import Path

import pytest
import torch
from envfarm.errors import ConfigError
from torch import Tensor
from transformers import AttentionInterface, LlamaConfig, PreTrainedModel, Qwen2Config
from transformers.models.llama.modeling_llama import LlamaForCausalLM
from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM

from learner import architectures, attention, layer_memory
from learner.algorithm.presets import PRESETS
from learner.algorithm.recipe import Algorithm
from learner.batch import make_batch
from learner.engine import load_model
from learner.logprobs import TokenScorer
from learner.micro_batch import split
from learner.model_config import Layout, Model
from tests.support import exact_case

AttentionInterface.register(attention.NAME, attention.attend)
SIZES = {
    "vocab_size": exact_case.VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "initializer_range": 0.3,
    "tie_word_embeddings": False,
}


def other(kind, shape) -> PreTrainedModel:
    torch.manual_seed(3)
    return kind(shape(**SIZES))


MODELS = {
    "qwen3": exact_case.qwen3,
    "qwen2": lambda: other(Qwen2ForCausalLM, Qwen2Config),
    "llama": lambda: other(LlamaForCausalLM, LlamaConfig),
    "qwen3_5_text": exact_case.hybrid,
}


def alone_and_together(model: PreTrainedModel, **layout) -> tuple[Tensor, Tensor]:
    """Log-probabilities of all targets: each line alone by the model itself, and by micro-batches."""
    algorithm = Algorithm.model_validate(PRESETS["reference"])
    lines = make_batch(exact_case.groups(), algorithm).lines
    alone = {}
    model.set_attn_implementation("sdpa")
    for line in lines:
        ids = torch.from_numpy(line.token_ids)[None]
        table = model(ids).logits[0, :-1].log_softmax(-1)
        alone[line.key] = table.gather(-1, ids[0, 1:, None])[:, 0][line.sampled[1:]]
    ordered = sorted(lines, key=lambda line: (-len(line), line.key))
    wanted = torch.cat([alone[line.key] for line in ordered])
    model.set_attn_implementation(attention.NAME)
    scorer = TokenScorer(model, 1000)
    ((part,),) = split(lines, tokens=10_000, **layout)
    found = scorer(
        part.token_ids,
        part.positions,
        part.lengths if part.packed else None,
        part.predicts,
        part.targets,
        "off",
        part.shared,
    )[0]
    return wanted, found


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "layout", [{"packed": True}, {"packed": True, "shared": True}, {"packed": False}]
)
@torch.no_grad()
def test_what_is_proved_equals_alone_and_what_leaks_is_not_in_the_table(name: str, layout: dict):
    wanted, found = alone_and_together(MODELS[name](), **layout)
    gap = float((wanted - found).abs().max())
    if not layout["packed"] or architectures.PROVED[name].packing:
        assert gap < 1e-5
        assert float((wanted - found).abs().mean()) < 1e-6
    else:
        assert gap > 1e-2, "it does not leak any more: prove it and put it in the table"


def test_every_architecture_of_the_table_is_tried_here():
    assert MODELS.keys() == architectures.PROVED.keys()


@pytest.mark.parametrize("name", MODELS)
def test_mlps_in_pieces_and_activations_elsewhere_change_nothing(name: str, tmp_path: Path):
    """One layer's rows of 5 positions in 8 pieces: some are empty, as a short row's are."""
    plain, frugal = MODELS[name]().double(), MODELS[name]().double()
    frugal.gradient_checkpointing_enable({"use_reentrant": False})
    layer_memory.keep_activations_in_main_memory(frugal)
    layer_memory.tile_mlps(frugal, 8)
    frugal.train()
    ids = torch.tensor([[5, 9, 2, 33, 40], [1, 1, 7, 8, 3]])
    for model in (plain, frugal):
        model(ids, use_cache=False).logits.square().sum().backward()
    pairs = zip(plain.named_parameters(), frugal.named_parameters(), strict=True)
    for (which, one), (_, other) in pairs:
        assert torch.allclose(one.grad, other.grad, rtol=1e-9), which  # pyright: ignore


@pytest.mark.parametrize(
    ("size", "heads", "keys", "words"),
    [
        (4, 24, 4, []),
        (8, 24, 4, []),  # a key head stands on two ranks
        (5, 24, 4, ["24 attention heads cannot be divided among 5", "4 key heads can neither"]),
        (3, 24, 4, ["4 key heads can neither"]),
        (16, 24, 4, ["24 attention heads cannot be divided among 16"]),
    ],
)
def test_heads_that_cannot_be_shared_out_are_named(size, heads, keys, words):
    shape = Qwen2Config(num_attention_heads=heads, num_key_value_heads=keys)
    found = list(architectures.unshareable(shape, size))
    assert len(found) == len(words)
    assert all(word in sentence for word, sentence in zip(words, found, strict=True))


def settings(path: Path, layout: str) -> tuple[Model, Layout]:
    model = Model(
        path=path,
        dtype="float32",
        zero_stage=0,
        offload="none",
        gradient_checkpointing=False,
        offload_activations=False,
        sequence_parallel=1,
        mlp_tiles=1,
        max_tokens=100,
    )
    return model, Layout(layout=layout, micro_batch_tokens=60, logits_at_once=1000)  # pyright: ignore


@pytest.mark.parametrize("layout", ["packed", "shared"])
def test_packing_a_hybrid_is_refused_at_start(layout: str, tmp_path: Path):
    folder = exact_case.save(exact_case.hybrid(), tmp_path)
    with pytest.raises(ConfigError, match="packing leaks between lines in 'qwen3_5_text'"):
        load_model(*settings(folder, layout))
    assert load_model(*settings(folder, "padded")).config.model_type == "qwen3_5_text"


def test_an_architecture_without_a_proof_is_refused(tmp_path: Path):
    folder = exact_case.save(exact_case.qwen3(), tmp_path)
    config = (folder / "config.json").read_text().replace('"qwen3"', '"gpt2"')
    (folder / "config.json").write_text(config)
    with pytest.raises(ConfigError, match="'gpt2' is not proved with this learner"):
        load_model(*settings(folder, "packed"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 8}, "sliding"),
        (
            {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}},
            "dynamic",
        ),
        ({"max_position_embeddings": 99}, "max_tokens: 100, but .* is made for 99 positions"),
    ],
)
def test_an_option_without_a_proof_is_refused_at_start(changes: dict, words: str, tmp_path: Path):
    folder = exact_case.save(exact_case.qwen3(), tmp_path)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    for layout in ("packed", "padded"):
        with pytest.raises(ConfigError, match=words):
            load_model(*settings(folder, layout))


def test_a_mask_or_a_window_is_not_silently_ignored():
    states = torch.zeros(1, 2, 4, 8)
    module = torch.nn.Identity()
    for wrong in ({"attention_mask": torch.ones(4, 4)}, {"sliding_window": 2}):
        with pytest.raises(ValueError, match="no mask, no window"):
            attention.attend(
                module, states, states, states, **{"attention_mask": None, **wrong}, scaling=1.0
            )
