"""What is proved with which architecture; everything else is refused at start. No torch in here, so
that a plan knows it, too."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Proved:
    """What a test holds for an architecture; everything else is refused at start."""

    packing: bool
    sequence_parallel: bool
    mlp_tiles: bool


PROVED = {
    "qwen2": Proved(packing=True, sequence_parallel=True, mlp_tiles=True),
    "qwen3": Proved(packing=True, sequence_parallel=True, mlp_tiles=True),
    "llama": Proved(packing=True, sequence_parallel=True, mlp_tiles=True),
    # Linear attention carries its state from one line into the next.
    "qwen3_5_text": Proved(packing=False, sequence_parallel=True, mlp_tiles=True),
}
"""By `model_type` of the configuration."""


FIXED_POSITIONS = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary positions whose angles depend on nothing but a token's place in its line."""


def unproved_options(shape: Any) -> Iterator[str]:
    """What a proved architecture's configuration may ask for and no test holds, a sentence each."""
    if "sliding_attention" in (getattr(shape, "layer_types", None) or ()):
        yield "layers with a sliding window are not proved: attention here is over whole lines"
    kind = (getattr(shape, "rope_parameters", None) or {}).get("rope_type", "default")
    if kind not in FIXED_POSITIONS:
        yield (
            f"rotary positions of the kind {kind!r} depend on the longest line beside a line; "
            f"proved are {', '.join(FIXED_POSITIONS)}"
        )


def unshareable(shape: Any, size: int) -> Iterator[str]:
    """Why the heads of a model cannot be shared out to `size` ranks, a sentence for each reason.
    `shape` has the names of a transformers configuration."""
    heads, keys = shape.num_attention_heads, shape.num_key_value_heads
    if heads % size:
        yield f"{heads} attention heads cannot be divided among {size} ranks"
    if keys % size and size % keys:
        yield f"{keys} key heads can neither be divided among {size} ranks nor repeated evenly"
    linear = getattr(shape, "linear_num_value_heads", None)
    if linear and "linear_attention" in (shape.layer_types or ()) and linear % size:
        yield f"{linear} heads of linear attention cannot be divided among {size} ranks"
