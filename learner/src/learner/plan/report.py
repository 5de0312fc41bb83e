"""The whole plan as plain values: the chosen layout, the others beside it, what was assumed."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from envfarm.errors import ConfigError

from learner.config import Config
from learner.plan import shape as shapes
from learner.plan.cluster import Cluster
from learner.plan.layouts import Kind, LayoutPlan, plan_layout

DELTA_PAYS = 0.02
"""Share of an update's time that a delta publication must save to be worth its second copy."""


def report(config: Config, folder: Path) -> dict[str, Any]:
    """`folder` is where the configuration lies. Raises ConfigError without [cluster], for a model
    that is not known, and for GPUs that do not fill their nodes."""
    cluster = config.cluster
    if cluster is None:
        raise ConfigError(
            "the configuration has no [cluster] section: nothing to plan for",
            hint="learner/configs/reference-q38-24xh100.toml has one",
        )
    if cluster.gpus % cluster.gpus_per_node:
        raise ConfigError(
            f"cluster.gpus: {cluster.gpus} GPUs do not fill nodes of {cluster.gpus_per_node}"
        )
    if not 0 < cluster.learner_gpus <= cluster.gpus:
        raise ConfigError(f"cluster.learner_gpus: 1 to {cluster.gpus}, not {cluster.learner_gpus}")
    shape = shapes.read(_shape_path(config, cluster, folder))
    layouts = [
        plan_layout(
            _as_time_shared(config) if kind == "time_shared" else config, cluster, shape, kind, n
        )
        for kind, n in _candidates(cluster)
    ]
    chosen = next(one for one in layouts if _is_chosen(one, cluster))
    able = [one for one in layouts if not one.refusals]
    return {
        "ok": not chosen.refusals,
        "recipe_hash": config.recipe_hash(),
        "model": {**asdict(shape), "parameters": shape.parameters},
        "cluster": cluster.model_dump(mode="json"),
        "updates": config.run.updates,
        "chosen": layout_values(chosen),
        "layouts": [layout_values(one) for one in layouts],
        "fastest": layout_values(min(able, key=lambda one: one.period)) if able else None,
        "delta_pays": chosen.delta_saves > DELTA_PAYS,
    }


def layout_values(one: LayoutPlan) -> dict[str, Any]:
    return {
        **asdict(one),
        "step_seconds": one.step.seconds,
        "rollout_seconds": one.rollout.seconds,
        "gpu_bytes": sum(one.learner.gpu.values()),
        "host_bytes": sum(one.learner.host.values()),
    }


def _shape_path(config: Config, cluster: Cluster, folder: Path) -> Path:
    own = config.model.path / "config.json"
    if cluster.shape is None or own.exists():
        return own
    return folder / cluster.shape


def _candidates(cluster: Cluster) -> list[tuple[Kind, int]]:
    """Time-shared, and every division in which no engine is cut; the configured one among them."""
    step = cluster.engines.tensor_parallel
    divided = {n for n in range(step, cluster.gpus, step) if (cluster.gpus - n) % step == 0}
    if cluster.layout == "disaggregated":
        divided.add(cluster.learner_gpus)
    found: list[tuple[Kind, int]] = [("time_shared", cluster.gpus)]
    return found + [("disaggregated", n) for n in sorted(divided)]


def _as_time_shared(config: Config) -> Config:
    """Beside another choice, with everything in main memory that can be: engines need the room."""
    assert config.cluster is not None
    if config.cluster.layout == "time_shared" or config.model.zero_stage != 3:
        return config
    everything = config.model.model_copy(update={"offload": "all"})
    return config.model_copy(update={"model": everything})


def _is_chosen(one: LayoutPlan, cluster: Cluster) -> bool:
    if cluster.layout == "time_shared":
        return one.kind == "time_shared"
    return one.kind == "disaggregated" and one.learner_gpus == cluster.learner_gpus
