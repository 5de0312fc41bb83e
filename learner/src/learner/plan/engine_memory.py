"""Bytes of an engine on each of its GPUs, and how many attempts its KV cache holds."""

from dataclasses import dataclass

from learner.plan.cluster import Cluster
from learner.plan.shape import Shape

GIB = 2**30
SIZE = 2
"""Bytes of a value of weights and cache: engines serve bfloat16."""


@dataclass(frozen=True, slots=True)
class EngineMemory:
    gpu: dict[str, int]
    """On one GPU of an engine, by what it is; "kv_cache" is what is left within the share."""
    kv_bytes_per_token: int
    """Of an engine, over its GPUs."""
    state_bytes: int
    """Of linear attention, for each attempt."""
    attempts_at_once: int
    """Of mean length, in one engine."""
    longest_at_once: int
    """Of the greatest length."""


def engine_memory(shape: Shape, cluster: Cluster, mean_tokens: int, longest: int) -> EngineMemory:
    engines, ranks = cluster.engines, cluster.engines.tensor_parallel
    weights = -(-shape.parameters * SIZE // ranks)
    buffers = int(engines.buffers_gib * GIB)
    budget = int(cluster.gpu_memory_gib * engines.memory_share * GIB)
    cache = budget - weights - buffers
    # Fewer key heads than ranks stand on several of them.
    heads = max(shape.num_key_value_heads, ranks)
    token = 2 * SIZE * heads * shape.head_dim * shape.full_layers
    state = (
        shape.linear_layers
        * shape.linear_num_value_heads
        * shape.linear_key_head_dim
        * shape.linear_value_head_dim
        * 4
    )
    whole = max(cache, 0) * ranks
    return EngineMemory(
        gpu={"weights": weights, "buffers": buffers, "kv_cache": cache},
        kv_bytes_per_token=token,
        state_bytes=state,
        attempts_at_once=whole // (token * mean_tokens + state),
        longest_at_once=whole // (token * longest + state),
    )
