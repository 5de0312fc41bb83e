"""A model's sizes and parameter counts from its config.json, without torch.

Counts are exact: a test holds them against transformers' own models for every architecture that the
learner is proved with.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envfarm.errors import ConfigError

BIASED = {"qwen2": ("q", "k", "v")}
HEAD_NORMS = ("qwen3", "qwen3_5_text")
GATED = ("qwen3_5_text",)
"""Whose query projection makes an output gate as well."""
KINDS = ("llama", "qwen2", "qwen3", "qwen3_5_text")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Names as in a transformers configuration, so `attention.unshareable` reads it, too."""

    kind: str
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    tied: bool
    max_position_embeddings: int
    layer_types: tuple[str, ...]
    linear_num_key_heads: int
    linear_num_value_heads: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    linear_conv_kernel_dim: int

    @property
    def full_layers(self) -> int:
        return self.layer_types.count("full_attention")

    @property
    def linear_layers(self) -> int:
        return len(self.layer_types) - self.full_layers

    @property
    def query_width(self) -> int:
        return self.num_attention_heads * self.head_dim

    @property
    def key_width(self) -> int:
        return self.num_key_value_heads * self.head_dim

    @property
    def linear_key_width(self) -> int:
        return self.linear_num_key_heads * self.linear_key_head_dim

    @property
    def linear_value_width(self) -> int:
        return self.linear_num_value_heads * self.linear_value_head_dim

    # parameters

    @property
    def embedding(self) -> int:
        return self.vocab_size * self.hidden_size

    @property
    def mlp(self) -> int:
        return 3 * self.hidden_size * self.intermediate_size

    @property
    def full_attention(self) -> int:
        """Of one layer of softmax attention, without its MLP and the layer's two norms."""
        gate = 2 if self.kind in GATED else 1
        biases = {"q": self.query_width, "k": self.key_width, "v": self.key_width}
        return (
            self.hidden_size * (gate * self.query_width + 2 * self.key_width)
            + self.query_width * self.hidden_size
            + (2 * self.head_dim if self.kind in HEAD_NORMS else 0)
            + sum(biases[name] for name in BIASED.get(self.kind, ()))
        )

    @property
    def linear_attention(self) -> int:
        """Of one layer of gated delta rule: projections of q, k, v, z, b and a, convolution, decay,
        norm, output."""
        channels = 2 * self.linear_key_width + self.linear_value_width
        heads = self.linear_num_value_heads
        return (
            self.hidden_size * (channels + self.linear_value_width + 2 * heads)
            + channels * self.linear_conv_kernel_dim
            + 2 * heads
            + self.linear_value_head_dim
            + self.linear_value_width * self.hidden_size
        )

    @property
    def parameters(self) -> int:
        layers = (
            self.full_layers * self.full_attention
            + self.linear_layers * self.linear_attention
            + len(self.layer_types) * (self.mlp + 2 * self.hidden_size)
        )
        return layers + self.hidden_size + self.embedding * (1 if self.tied else 2)

    @property
    def largest_layer(self) -> int:
        """Parameters of the largest module that ZeRO gathers whole."""
        return max(self.embedding, self.hidden_size * self.intermediate_size)


def read(path: Path) -> Shape:
    """From a config.json or the folder that holds one; ConfigError for what is not known here."""
    path = path / "config.json" if path.is_dir() else path
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot read the model's configuration {path}: {error}",
            hint="name a config.json as cluster.shape",
        ) from error
    values = values.get("text_config", values) if isinstance(values, dict) else {}
    kind = values.get("model_type")
    if kind not in KINDS:
        raise ConfigError(
            f"{path}: the architecture {kind!r} is not proved with this learner",
            hint=f"proved are {', '.join(KINDS)}",
        )
    try:
        return _shape(kind, values)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: {error} is missing or no number") from error


def _shape(kind: str, values: dict[str, Any]) -> Shape:
    if values.get("attention_bias") or values.get("mlp_bias"):
        raise ValueError("biases beyond the architecture's own: the count without")
    layers = int(values["num_hidden_layers"])
    hybrid = kind in GATED
    every = int(values.get("full_attention_interval", 4))
    named = values.get("layer_types") if hybrid else None
    types = named or [
        "linear_attention" if hybrid and (i + 1) % every else "full_attention"
        for i in range(layers)
    ]
    heads = int(values["num_attention_heads"])

    def linear(name: str) -> int:
        return int(values[name]) if hybrid else 0

    return Shape(
        kind=kind,
        hidden_size=int(values["hidden_size"]),
        intermediate_size=int(values["intermediate_size"]),
        num_attention_heads=heads,
        num_key_value_heads=int(values.get("num_key_value_heads") or heads),
        head_dim=int(values.get("head_dim") or values["hidden_size"] // heads),
        vocab_size=int(values["vocab_size"]),
        tied=bool(values.get("tie_word_embeddings", False)),
        max_position_embeddings=int(values["max_position_embeddings"]),
        layer_types=tuple(types),
        linear_num_key_heads=linear("linear_num_key_heads"),
        linear_num_value_heads=linear("linear_num_value_heads"),
        linear_key_head_dim=linear("linear_key_head_dim"),
        linear_value_head_dim=linear("linear_value_head_dim"),
        linear_conv_kernel_dim=linear("linear_conv_kernel_dim"),
    )
