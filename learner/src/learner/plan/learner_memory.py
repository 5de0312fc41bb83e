"""Bytes of the learner on each GPU and on each node.

P parameters, N ranks, b bytes of the run's dtype. What ZeRO 3 keeps was measured on a small model by
walking every live tensor (a test does it again): b for weights, b for gradients, and float32 master
weights and two moments where the dtype is bfloat16; a bucket of 5·10^8 values that is there from the
start; one sub-group's gradients in float32 while AdamW moves.
"""

from dataclasses import dataclass

from learner.model_config import Layout, Model
from learner.plan.cluster import Cluster
from learner.plan.shape import GATED, Shape

BYTES = {"float32": 4, "bfloat16": 2, "float64": 8}
BUCKET = 500_000_000
SUB_GROUP = 1_000_000_000
LIVE = 1_000_000_000
"""DeepSpeed's reduce_bucket_size, sub_group_size and stage3_max_live_parameters, in values."""


@dataclass(frozen=True, slots=True)
class LearnerMemory:
    gpu: dict[str, int]
    """On the fullest GPU, by what it is, in bytes."""
    host: dict[str, int]
    """On a node."""
    start_gpu: int
    """Before ZeRO has shared out the weights, which each rank loads whole."""
    start_host: int
    resident_gpu: int
    """What stays on a GPU between two updates."""


def learner_memory(
    model: Model, layout: Layout, shape: Shape, cluster: Cluster, ranks: int
) -> LearnerMemory:
    size = BYTES[model.dtype]
    states, host = _states(model, shape.parameters, ranks)
    activations, kept = _activations(model, layout, shape, size)
    transient = _transient(model, shape, ranks, size)
    gpu = {**states, **transient, **activations, "logits": _logits(layout, shape, size)}
    node = min(ranks, cluster.gpus_per_node)
    whole = shape.parameters * size
    return LearnerMemory(
        gpu=gpu,
        host={name: value * node for name, value in {**host, **kept}.items()},
        start_gpu=whole,
        start_host=whole * node,
        resident_gpu=sum(states.values()) + transient.get("bucket", 0),
    )


def _states(model: Model, parameters: int, ranks: int) -> tuple[dict[str, int], dict[str, int]]:
    """(on a GPU, in main memory for each rank): weights, gradients, optimizer."""
    size, stage = BYTES[model.dtype], model.zero_stage

    def shared(from_stage: int) -> int:
        return -(-parameters // ranks) if stage >= from_stage else parameters

    weights = size * shared(3)
    gradients = size * shared(2)
    # bfloat16 has master weights in float32 beside the two moments.
    optimizer = (12 if model.dtype == "bfloat16" else 2 * size) * shared(1)
    gpu = {"weights": weights, "gradients": gradients, "optimizer": optimizer}
    host = {}
    if model.offload != "none":
        host["optimizer"] = gpu.pop("optimizer")
        host["gradients"] = gpu.pop("gradients") + 4 * shared(1)
    if model.offload == "all":
        host["weights"] = gpu.pop("weights")
    return gpu, host


def _transient(model: Model, shape: Shape, ranks: int, size: int) -> dict[str, int]:
    parameters = shape.parameters
    if model.zero_stage == 0:
        return {"bucket": 4 * parameters if ranks > 1 else 0}
    bucket = size * (BUCKET if model.zero_stage == 3 else min(BUCKET, parameters))
    made = {"bucket": bucket}
    if model.zero_stage == 3:
        largest = shape.largest_layer
        made["gathered"] = size * (min(parameters, LIVE) + largest)
        made["largest_gradient"] = size * largest
    if model.offload == "none":
        share = -(-parameters // ranks)
        made["step"] = 4 * (min(share, SUB_GROUP) if model.zero_stage == 3 else share)
    return made


def _activations(
    model: Model, layout: Layout, shape: Shape, size: int
) -> tuple[dict[str, int], dict[str, int]]:
    """(on a GPU, in main memory for each rank), for the longest micro-batch."""
    positions = -(-max(model.max_tokens, layout.micro_batch_tokens) // model.sequence_parallel)
    layers = len(shape.layer_types)
    layer = 2 * size * positions * layer_values(shape, model.mlp_tiles)
    inputs = size * positions * shape.hidden_size
    if not model.gradient_checkpointing:
        return {"activations": layers * layer // 2 + layer}, {}
    if model.offload_activations:
        return {"layer": layer + 2 * inputs}, {"activations": layers * inputs}
    return {"layer": layer, "activations": layers * inputs}, {}


def layer_values(shape: Shape, mlp_tiles: int) -> int:
    """Values a position that a layer keeps for its backward pass, the largest kind of layer; as much
    again is there in gradients while that pass runs.

    Norms and residuals keep 4 H. Attention keeps q, k and v as projected, turned and exchanged, the
    output twice, and its gate. The gated delta rule keeps its channels before and after the
    convolution and exchanged, with q and k repeated for every value head, z, and the output twice.
    An MLP keeps 4 I, of which only one piece is there at once.
    """
    hidden, query, key = shape.hidden_size, shape.query_width, shape.key_width
    kinds = []
    if shape.full_layers:
        gate = query if shape.kind in GATED else 0
        kinds.append(3 * (query + 2 * key) + 2 * query + 2 * gate)
    if shape.linear_layers:
        channels = 2 * shape.linear_key_width + shape.linear_value_width
        value = shape.linear_value_width
        repeated = 2 * shape.linear_num_value_heads * shape.linear_key_head_dim + value
        kinds.append(2 * channels + 2 * repeated + value + 2 * value)
    return 4 * hidden + max(kinds) + -(-4 * shape.intermediate_size // mlp_tiles)


def _logits(layout: Layout, shape: Shape, size: int) -> int:
    """A tile as the head makes it and in float32, and the gradients of both, one of them twice."""
    tile = max(1, layout.logits_at_once // shape.vocab_size) * shape.vocab_size
    return tile * (2 * size + 3 * 4)
