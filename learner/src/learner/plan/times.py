"""Seconds of an update: the learner's step, the rollouts, the publication. Arithmetic on [cluster].

Training computes 2 operations a weight and token forward and 4 backward, 2 more where gradient
checkpointing makes activations again, and 2 more in the MLPs where pieces do so once more. Softmax
attention adds 2 · T · query width a token and layer forward; the delta rule 6 · heads · Dk · Dv. Lengths
are taken to be spread evenly from 0 to twice the mean, so a token stands in a line of 4/3 of it.
"""

import math
from dataclasses import dataclass

from learner.config import Config
from learner.plan.cluster import Cluster
from learner.plan.engine_memory import SIZE, EngineMemory
from learner.plan.learner_memory import BYTES
from learner.plan.shape import Shape

ADAM_BYTES = 28
"""AdamW's traffic a parameter: gradient read; master weight and two moments read and written."""
DELTA_SHARE, DELTA_BYTES = 0.02, 6
"""Of bfloat16 weights that an update at this learning rate changes, as others measured (1 to 3 %);
index and value of one."""


@dataclass(frozen=True, slots=True)
class StepTime:
    operations: float
    compute: float
    gathering: float
    """ZeRO 3 between nodes; hidden behind the computation as far as it is shorter."""
    activations: float
    optimizer: float
    micro_batches: int
    """Of each rank."""

    @property
    def seconds(self) -> float:
        return max(self.compute, self.gathering) + self.activations + self.optimizer


@dataclass(frozen=True, slots=True)
class RolloutTime:
    attempts: int
    """That are begun for one update."""
    busy: float
    """What the engines need if they are never short of work."""
    longest: float
    """From the first to the last token of the longest attempt."""
    at_once: int

    @property
    def seconds(self) -> float:
        return max(self.busy, self.longest)


@dataclass(frozen=True, slots=True)
class PublicationTime:
    weight_bytes: int
    collective: float
    disk: float
    delta_bytes: int
    delta: float
    stream_bytes: int
    """Of the groups that one update trains on."""


def step_time(config: Config, shape: Shape, cluster: Cluster, ranks: int) -> StepTime:
    model, batch, attempts = config.model, config.batch, cluster.attempts
    lines = batch.groups_per_update * batch.group_size
    tokens = lines * attempts.mean_tokens
    operations = tokens * _operations(config, shape, attempts.line_of_a_token)
    shares = max(1, ranks // model.sequence_parallel)
    if batch.layout == "padded":
        at_once = max(1, batch.micro_batch_tokens // attempts.mean_tokens)
        micro_batches = math.ceil(lines / shares / at_once)
    else:
        micro_batches = math.ceil(tokens / shares / batch.micro_batch_tokens)
    size, parameters = BYTES[model.dtype], shape.parameters
    gathering = 0.0
    if model.zero_stage == 3 and ranks > cluster.gpus_per_node:
        # Weights for forward, weights for backward, gradients away.
        moved = 3 * size * parameters * (ranks - 1) / ranks
        gathering = micro_batches * moved / (cluster.network_gb_per_second * 1e9)
    activations = 0.0
    if model.offload_activations:
        kept = size * shape.hidden_size * len(shape.layer_types) * tokens / ranks
        activations = 2 * kept / (cluster.host_gb_per_second * 1e9)
    return StepTime(
        operations=operations,
        compute=operations / (ranks * cluster.gpu_tflops * 1e12 * cluster.flops_share),
        gathering=gathering,
        activations=activations,
        optimizer=_optimizer(config, parameters, cluster, ranks),
        micro_batches=micro_batches,
    )


def _operations(config: Config, shape: Shape, line: float) -> float:
    """Of one token that stands in a line of that length, forward and backward."""
    model = config.model
    weights = 2.0 * (shape.parameters - (0 if shape.tied else shape.embedding))
    attention = 2.0 * line * shape.query_width * shape.full_layers
    rule = (
        6.0
        * shape.linear_num_value_heads
        * shape.linear_key_head_dim
        * shape.linear_value_head_dim
        * shape.linear_layers
    )
    passes = 4 if model.gradient_checkpointing else 3
    again = 2.0 * shape.mlp * len(shape.layer_types) if model.mlp_tiles > 1 else 0.0
    return passes * (weights + attention + rule) + again


def _optimizer(config: Config, parameters: int, cluster: Cluster, ranks: int) -> float:
    share = parameters / ranks
    if config.model.offload == "none":
        return ADAM_BYTES * share / (cluster.gpu_memory_gb_per_second * 1e9)
    nodes = math.ceil(ranks / cluster.gpus_per_node)
    moved = 2 * BYTES[config.model.dtype] * share / (cluster.host_gb_per_second * 1e9)
    return moved + ADAM_BYTES * parameters / nodes / (cluster.adam_gb_per_second * 1e9)


def rollout_time(
    config: Config, cluster: Cluster, memory: EngineMemory, engine_gpus: int
) -> RolloutTime:
    batch, attempts, engines = config.batch, cluster.attempts, cluster.engines
    begun = math.ceil(batch.groups_per_update * batch.group_size / (1 - attempts.thrown_away))
    # The attempts of a group begin with the same prompt, and each turn finds the earlier ones cached.
    read = begun * (attempts.mean_prompt_tokens / batch.group_size + attempts.mean_tool_tokens)
    busy = begun * attempts.mean_sampled_tokens / (engine_gpus * engines.decode_tokens_per_second)
    busy += read / (engine_gpus * engines.prefill_tokens_per_second)
    return RolloutTime(
        attempts=begun,
        busy=busy,
        longest=attempts.longest_sampled_tokens / engines.request_tokens_per_second
        + attempts.turns * attempts.seconds_a_turn,
        at_once=memory.attempts_at_once * (engine_gpus // engines.tensor_parallel),
    )


def decode_bound(shape: Shape, cluster: Cluster, memory: EngineMemory) -> float:
    """Tokens a second of one GPU that its memory's bandwidth allows with a full cache: each step
    reads the weights once and every attempt's cache."""
    at_once, ranks = memory.attempts_at_once, cluster.engines.tensor_parallel
    cached = at_once * (
        memory.kv_bytes_per_token * cluster.attempts.mean_tokens + 2 * memory.state_bytes
    )
    read = (shape.parameters * SIZE + cached) / ranks
    return at_once / ranks * cluster.gpu_memory_gb_per_second * 1e9 / read


def publication_time(config: Config, shape: Shape, cluster: Cluster) -> PublicationTime:
    weights = shape.parameters * SIZE
    network, disk = cluster.network_gb_per_second * 1e9, cluster.disk_gb_per_second * 1e9
    delta = int(shape.parameters * DELTA_SHARE) * DELTA_BYTES
    lines = config.batch.groups_per_update * config.batch.group_size
    # A token's id, mask, log-probability and share of a span.
    stream = lines * cluster.attempts.mean_tokens * (4 + 1 + 4)
    return PublicationTime(
        weight_bytes=weights,
        collective=weights / network,
        disk=2 * weights / disk,
        delta_bytes=delta,
        delta=delta / network,
        stream_bytes=stream,
    )
