"""One way to divide the GPUs: its memory, its times, and every reason why it cannot work."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from learner import architectures
from learner.config import Config
from learner.plan.cluster import Cluster
from learner.plan.engine_memory import GIB, EngineMemory, engine_memory
from learner.plan.learner_memory import LearnerMemory, learner_memory
from learner.plan.shape import Shape
from learner.plan.times import (
    PublicationTime,
    RolloutTime,
    StepTime,
    decode_bound,
    publication_time,
    rollout_time,
    step_time,
)

Kind = Literal["disaggregated", "time_shared"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutPlan:
    kind: Kind
    offload: str
    learner_gpus: int
    engine_gpus: int
    refusals: tuple[str, ...]
    learner: LearnerMemory
    engine: EngineMemory
    step: StepTime
    rollout: RolloutTime
    publication: PublicationTime
    period: float
    """Seconds of an update from one publication to the next."""
    learner_idle: float
    """Share of the period in which the learner's GPUs train nothing."""
    engines_idle: float
    delta_saves: float
    """Share of the period that publishing only what changed would save."""
    cost: float
    """Of all updates."""
    hours: float


def plan_layout(
    config: Config, cluster: Cluster, shape: Shape, kind: Kind, learner_gpus: int
) -> LayoutPlan:
    shared = kind == "time_shared"
    engine_gpus = cluster.gpus if shared else cluster.gpus - learner_gpus
    learner = learner_memory(config.model, config.batch, shape, cluster, learner_gpus)
    engine = engine_memory(shape, cluster, cluster.attempts.mean_tokens, config.model.max_tokens)
    step = step_time(config, shape, cluster, learner_gpus)
    rollout = rollout_time(config, cluster, engine, max(engine_gpus, 1))
    publication = publication_time(config, shape, cluster)
    refusals = [
        *_model(config, shape),
        *_division(config, cluster, shape, learner_gpus, engine_gpus),
        *_learner_fits(learner, cluster),
        *_engines_fit(config, cluster, shape, engine),
    ]
    if shared:
        refusals += _both_fit(learner, cluster)
    if publication.collective > config.gateway.announce_seconds:
        refusals.append(
            f"a publication takes {publication.collective:.0f} s, gateway.announce_seconds is "
            f"{config.gateway.announce_seconds:.0f}"
        )
    sent = publication.collective
    if shared:
        period = rollout.seconds + step.seconds + sent + cluster.engines.wake_seconds
    elif config.admission.staleness:
        period = max(rollout.seconds, step.seconds) + sent
    else:
        period = rollout.seconds + step.seconds + sent
    hours = config.run.updates * period / 3600
    return LayoutPlan(
        kind=kind,
        offload=config.model.offload,
        learner_gpus=learner_gpus,
        engine_gpus=engine_gpus,
        refusals=tuple(refusals),
        learner=learner,
        engine=engine,
        step=step,
        rollout=rollout,
        publication=publication,
        period=period,
        learner_idle=1 - step.seconds / period,
        engines_idle=1 - rollout.busy / period,
        delta_saves=(publication.collective - publication.delta) / period,
        cost=hours * cluster.gpus * cluster.gpu_hour,
        hours=hours,
    )


def _model(config: Config, shape: Shape) -> Iterator[str]:
    proved = architectures.PROVED[shape.kind]
    if config.batch.layout != "padded" and not proved.packing:
        yield (
            f'batch.layout "{config.batch.layout}" leaks between lines in {shape.kind!r} (linear '
            'attention carries its state on): "padded" does not'
        )
    if config.model.max_tokens > shape.max_position_embeddings:
        yield (
            f"model.max_tokens is {config.model.max_tokens}, the model knows "
            f"{shape.max_position_embeddings} positions"
        )


def _division(
    config: Config, cluster: Cluster, shape: Shape, learner: int, engines: int
) -> Iterator[str]:
    together, parallel = config.model.sequence_parallel, cluster.engines.tensor_parallel
    if learner % together:
        yield f"{learner} learner GPUs cannot be divided into groups of {together} that share rows"
    if cluster.gpus_per_node % together:
        yield (
            f"groups of {together} GPUs that share rows do not fit nodes of {cluster.gpus_per_node}: "
            "every layer would exchange over the network"
        )
    if together > 1:
        yield from architectures.unshareable(shape, together)
    if engines < 1:
        yield f"{cluster.gpus} GPUs leave none for engines"
    elif engines % parallel:
        yield f"{engines} engine GPUs cannot be divided into engines of {parallel}"
    for wrong in architectures.unshareable(shape, parallel) if parallel > 1 else ():
        yield f"cluster.engines.tensor_parallel {parallel}: {wrong}"


def _learner_fits(memory: LearnerMemory, cluster: Cluster) -> Iterator[str]:
    usable = int((cluster.gpu_memory_gib - cluster.reserved_gib) * GIB)
    needed, node = sum(memory.gpu.values()), int(cluster.node_memory_gib * GIB)
    if needed > usable:
        largest = max(memory.gpu, key=lambda name: memory.gpu[name])
        yield (
            f"the learner needs {needed / GIB:.1f} GiB on a GPU that has {usable / GIB:.1f}; most of "
            f"it is {largest} ({memory.gpu[largest] / GIB:.1f} GiB)"
        )
    if memory.start_gpu > usable:
        yield (
            f"each rank loads the whole model first: {memory.start_gpu / GIB:.1f} GiB on a GPU that "
            f"has {usable / GIB:.1f}"
        )
    host = max(sum(memory.host.values()), memory.start_host)
    if host > node:
        yield f"a node needs {host / GIB:.0f} GiB of main memory and has {node / GIB:.0f}"


def _engines_fit(
    config: Config, cluster: Cluster, shape: Shape, memory: EngineMemory
) -> Iterator[str]:
    cache = memory.gpu["kv_cache"]
    if cache <= 0:
        yield f"an engine's weights and buffers leave {cache / GIB:.1f} GiB of a GPU for its KV cache"
    elif memory.longest_at_once < 1:
        yield (
            f"an engine's KV cache of {cache * cluster.engines.tensor_parallel / GIB:.1f} GiB holds "
            f"no attempt of {config.model.max_tokens} tokens "
            f"({memory.kv_bytes_per_token} bytes a token)"
        )
    else:
        bound, stated = (
            decode_bound(shape, cluster, memory),
            cluster.engines.decode_tokens_per_second,
        )
        if stated > bound:
            yield (
                f"cluster.engines.decode_tokens_per_second is {stated:.0f}, but a GPU's memory "
                f"bandwidth allows {bound:.0f}"
            )


def _both_fit(learner: LearnerMemory, cluster: Cluster) -> Iterator[str]:
    """While engines are awake, the learner keeps what is not in main memory."""
    engine = int(cluster.gpu_memory_gib * cluster.engines.memory_share * GIB)
    reserved = int(cluster.reserved_gib * GIB)
    there, total = learner.resident_gpu, int(cluster.gpu_memory_gib * GIB)
    if engine + there + reserved > total:
        yield (
            f"an engine that is awake takes {engine / GIB:.1f} GiB beside {there / GIB:.1f} of the "
            f"learner and {reserved / GIB:.1f} reserved, on a GPU of {total / GIB:.1f}"
        )
