"""What is measured: a model of at least 20 M parameters, and lines of one micro-batch for it."""

import random
from pathlib import Path

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from learner.algorithm.presets import PRESETS
from learner.algorithm.recipe import Algorithm
from learner.line import Line
from learner.model_config import Layout, Model, Optimizer

VOCABULARY = 8192
LINES = 17
SHORTEST, LONGEST = 384, 640
ALGORITHM = Algorithm.model_validate(PRESETS["reference"])
ADAMW = Optimizer(
    kind="adamw", lr=1e-6, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, grad_norm=1.0
)
LAYOUT = Layout(layout="packed", micro_batch_tokens=16_384, logits_at_once=8_388_608)


def make_model(folder: Path, vocabulary: int, seed: int = 1) -> Path:
    """Qwen3: 8 layers of 384, untied; 20.1 M parameters at a vocabulary of 8192."""
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=vocabulary,
            hidden_size=384,
            intermediate_size=1152,
            num_hidden_layers=8,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=64,
            tie_word_embeddings=False,
            pad_token_id=0,
        )
    )
    model.save_pretrained(folder, safe_serialization=True)
    return folder


def settings(path: Path) -> Model:
    return Model(
        path=path,
        dtype="float32",
        zero_stage=0,
        offload="none",
        gradient_checkpointing=False,
        offload_activations=False,
        sequence_parallel=1,
        mlp_tiles=1,
        max_tokens=LONGEST,
    )


def make_lines(vocabulary: int = VOCABULARY, seed: int = 2) -> list[Line]:
    """8,4xx tokens: lines of 384 to 640, the second half of each sampled."""
    source = random.Random(seed)
    sizes = [source.randint(SHORTEST, LONGEST) for _ in range(LINES)]
    sampled = sum(size - size // 2 for size in sizes)
    numbers = np.random.default_rng(seed)
    lines = []
    for index, size in enumerate(sizes):
        mask = np.arange(size) >= size // 2
        lines.append(
            Line(
                key=f"{index:03d}",
                token_ids=numbers.integers(1, vocabulary, size),
                sampled=mask,
                weight=1.0 / sampled,
                advantage=0.5 if index % 2 else -0.5,
                old_logprobs=np.where(mask, -9.0, 0.0).astype(np.float32),
                versions=np.where(mask, 0, -1),
            )
        )
    return lines
