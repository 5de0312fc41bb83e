"""The sections that GRPO and supervised training share: the model, how it is laid out, AdamW."""

from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from learner.config_file import Section
from learner.schedule import share


class Model(Section):
    path: Path
    """Initial model: config.json, safetensors and tokenizer files."""
    dtype: Literal["float32", "bfloat16", "float64"]
    """bfloat16 keeps float32 master weights in the optimizer; float64 is for proofs."""
    zero_stage: Literal[0, 1, 2, 3]
    """What the ranks share out: nothing, optimizer, + gradients, + parameters."""
    offload: Literal["none", "optimizer", "all"]
    """What lies in main memory: optimizer states; "all" is parameters, too (stage 3)."""
    gradient_checkpointing: bool
    """Make activations again in the backward pass instead of keeping them."""
    offload_activations: bool
    """What gradient checkpointing keeps waits in main memory."""
    sequence_parallel: PositiveInt
    """Neighbouring ranks that share the positions of every row (Ulysses); 1 is off."""
    mlp_tiles: PositiveInt
    """Pieces of a row that pass each MLP one after another; 1 is off."""
    max_tokens: PositiveInt
    """Longest trajectory, prompt and response together; a longer one is refused, never cut."""

    @model_validator(mode="after")
    def _possible(self) -> "Model":
        refusals = {
            "ZeRO stage 3 refuses float64": self.zero_stage == 3 and self.dtype == "float64",
            'offload "optimizer" needs zero_stage 1, 2 or 3': (
                self.offload == "optimizer" and self.zero_stage == 0
            ),
            'offload "all" needs zero_stage 3': self.offload == "all" and self.zero_stage != 3,
            "bfloat16 needs zero_stage 1, 2 or 3: they hold the float32 master weights": (
                self.dtype == "bfloat16" and self.zero_stage == 0
            ),
            "offload_activations needs gradient_checkpointing: it decides what is kept": (
                self.offload_activations and not self.gradient_checkpointing
            ),
        }
        for sentence, refused in refusals.items():
            if refused:
                raise ValueError(sentence)
        return self


class Layout(Section):
    """How lines lie in memory; changes speed and the last bits of float32, not the mathematics."""

    layout: Literal["packed", "shared", "padded"]
    """packed: lines end to end in one row, refused where it is not proved. shared: packed, with the
    beginning that they have in common, such as a system prompt, once. padded: a line a row."""
    micro_batch_tokens: PositiveInt
    """Positions of one forward pass, at most; a longer line goes alone."""
    logits_at_once: PositiveInt
    """Positions × vocabulary of the logits that exist at once.

    On CPU at least 8,388,608, which are 32 MiB of float32: glibc maps such blocks and gives them
    back, but cuts smaller ones out of its heap, where tile after tile stays behind in pieces (at a
    vocabulary of 131,072 half as many took 2.4 times the memory)."""


class Optimizer(Section):
    kind: Literal["adamw"]
    lr: PositiveFloat
    betas: tuple[float, float]
    eps: PositiveFloat
    weight_decay: float = Field(ge=0)
    grad_norm: PositiveFloat
    """Gradients are scaled down to this norm."""

    @model_validator(mode="after")
    def _betas_in_range(self) -> "Optimizer":
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError("betas must lie in [0, 1)")
        return self


class Schedule(Section):
    """Learning rate over the run: a linear rise to optimizer.lr, then as `kind` says."""

    kind: Literal["constant", "linear", "cosine"]
    """linear and cosine end at zero, so the run's length is a part of its recipe."""
    warmup_steps: int = Field(ge=0)
    """Optimizer steps until the peak; Adam's first steps are its largest."""

    def rate(self, peak: float, step: int, steps: int) -> float:
        """The learning rate of one of `steps`, counted from 0; see schedule.py."""
        return peak * share(self.kind, step, steps=steps, warmup=self.warmup_steps)
