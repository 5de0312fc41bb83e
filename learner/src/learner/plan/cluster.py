"""The section [cluster]: the machines that a run is planned for, and what is assumed of them.

Sizes are GB = 10^9 bytes except where GiB is said; rates are bytes, tokens or operations a second.
The numbers come from data sheets and from measurements of others: `envfarm plan` prints them beside
what it makes of them.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from learner.config_file import Section


class Engines(Section):
    tensor_parallel: PositiveInt
    """GPUs of one engine."""
    memory_share: float = Field(gt=0, lt=1)
    """Of a GPU's memory, for weights, buffers and KV cache."""
    buffers_gib: NonNegativeFloat
    """Of a GPU: activations and CUDA graphs of the engine."""
    decode_tokens_per_second: PositiveFloat
    """Of one GPU of an engine, over all its requests, with a full batch."""
    request_tokens_per_second: PositiveFloat
    """Of one request, in such a batch."""
    prefill_tokens_per_second: PositiveFloat
    """Of one GPU; what the prefix cache holds is not computed again."""
    wake_seconds: NonNegativeFloat
    """Until a sleeping engine has its memory again, without its weights."""


class Attempts(Section):
    """What the run's attempts are assumed to be like; a probe measures it."""

    mean_prompt_tokens: PositiveInt
    mean_sampled_tokens: PositiveInt
    mean_tool_tokens: PositiveInt
    """Tool results and user turns, read by the engine and not trained."""
    longest_sampled_tokens: PositiveInt
    """Of the longest attempt of an update: it decides when the update's last group is complete."""
    turns: PositiveInt
    seconds_a_turn: NonNegativeFloat
    """Tools, user model and gateway, for one turn."""
    thrown_away: float = Field(ge=0, lt=1)
    """Share of attempts that no update uses: groups of equal rewards, refilled samples."""

    @property
    def mean_tokens(self) -> int:
        return self.mean_prompt_tokens + self.mean_sampled_tokens + self.mean_tool_tokens

    @property
    def line_of_a_token(self) -> float:
        """Length of the line that a token stands in, on average, where lengths are spread evenly
        from 0 to twice the mean."""
        return self.mean_tokens * 4 / 3


class Cluster(Section):
    shape: Path | None = None
    """The model's config.json where model.path is not on this machine; relative to the TOML file."""
    gpu: str
    gpus: PositiveInt
    gpus_per_node: PositiveInt
    gpu_memory_gib: PositiveFloat
    reserved_gib: NonNegativeFloat
    """CUDA context, communication buffers and fragments, of each GPU."""
    node_memory_gib: PositiveFloat
    """Main memory of a node."""
    gpu_tflops: PositiveFloat
    """Dense matrix products in the run's dtype."""
    flops_share: float = Field(gt=0, le=1)
    """Of gpu_tflops that training reaches, communication within a node included."""
    gpu_memory_gb_per_second: PositiveFloat
    network_gb_per_second: PositiveFloat
    """Of one GPU to another node, one direction."""
    host_gb_per_second: PositiveFloat
    """Of one GPU to main memory, one direction."""
    adam_gb_per_second: PositiveFloat
    """Main memory traffic of one node while AdamW runs there."""
    disk_gb_per_second: PositiveFloat
    """Of the file system that learner and engines share."""
    gpu_hour: NonNegativeFloat
    """Price of a GPU for an hour."""
    currency: str
    layout: Literal["disaggregated", "time_shared"]
    """Learner and engines on GPUs of their own, or all on all and the engines asleep meanwhile."""
    learner_gpus: PositiveInt
    """With "disaggregated"; the rest are the engines'. All of them with "time_shared"."""
    engines: Engines
    attempts: Attempts
