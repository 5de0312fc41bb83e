"""A plan for people: memory of the chosen layout, its times, the layouts side by side."""

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from envfarm_cli.output import plain

GIB = 2**30
NAMES = {
    "bucket": "gradient bucket",
    "gathered": "gathered weights",
    "largest_gradient": "largest whole gradient",
    "step": "float32 gradients of a step",
    "layer": "one layer's activations",
    "activations": "kept activations",
    "logits": "tile of logits",
    "kv_cache": "KV cache",
}


def parts(found: dict[str, Any]) -> Iterator[Table]:
    yield _memory(found)
    yield _times(found)
    yield _layouts(found)


def sentence(found: dict[str, Any]) -> str:
    """What the chosen layout comes to."""
    chosen, cluster = found["chosen"], found["cluster"]
    return (
        f"{found['updates']} updates in {chosen['hours']:.1f} hours for {chosen['cost']:,.0f} "
        f"{cluster['currency']} on {cluster['gpus']} × {cluster['gpu']}"
    )


def _memory(found: dict[str, Any]) -> Table:
    chosen, cluster = found["chosen"], found["cluster"]
    table = Table(title="Memory in GiB", title_justify="left", box=None, pad_edge=False)
    for name, side in (("where", "left"), ("what", "left"), ("GiB", "right")):
        table.add_column(name, justify=side)  # pyright: ignore[reportArgumentType]
    usable = cluster["gpu_memory_gib"] - cluster["reserved_gib"]
    sections = (
        (f"learner's GPU (× {chosen['learner_gpus']})", chosen["learner"]["gpu"], usable),
        ("learner's node", chosen["learner"]["host"], cluster["node_memory_gib"]),
        (
            f"engine's GPU (× {chosen['engine_gpus']})",
            chosen["engine"]["gpu"],
            cluster["gpu_memory_gib"] * cluster["engines"]["memory_share"],
        ),
    )
    for where, held, room in sections:
        for name, value in held.items():
            table.add_row(plain(where), NAMES.get(name, name), f"{value / GIB:.1f}")
            where = ""
        table.add_row("", f"[b]of {room:,.1f}[/b]", f"[b]{sum(held.values()) / GIB:.1f}[/b]")
    learner = chosen["learner"]
    table.add_row(
        "at the start", "whole model, on a GPU and on a node", f"{learner['start_gpu'] / GIB:.1f}"
    )
    table.add_row("", "", f"{learner['start_host'] / GIB:.1f}")
    return table


def _times(found: dict[str, Any]) -> Table:
    chosen = found["chosen"]
    step, rollout, sent = chosen["step"], chosen["rollout"], chosen["publication"]
    table = Table(title="An update", title_justify="left", box=None, pad_edge=False)
    table.add_column("what")
    table.add_column("seconds", justify="right")
    table.add_column("of which")
    table.add_row(
        "learner's step",
        f"{chosen['step_seconds']:.0f}",
        f"{step['operations']:.2e} operations {step['compute']:.0f} s, weights between nodes "
        f"{step['gathering']:.0f} s, activations {step['activations']:.0f} s, AdamW "
        f"{step['optimizer']:.1f} s; {step['micro_batches']} micro-batches a rank",
    )
    table.add_row(
        "rollouts",
        f"{chosen['rollout_seconds']:.0f}",
        f"{rollout['attempts']} attempts, {rollout['at_once']} at once: engines busy "
        f"{rollout['busy']:.0f} s, longest attempt {rollout['longest']:.0f} s",
    )
    pays = "pays" if found["delta_pays"] else "does not pay"
    table.add_row(
        "publication",
        f"{sent['collective']:.1f}",
        f"{sent['weight_bytes'] / 1e9:.1f} GB by a collective; by disk {sent['disk']:.0f} s; what "
        f"changed {sent['delta_bytes'] / 1e9:.1f} GB, {sent['delta']:.2f} s: {pays}",
    )
    table.add_row("groups", "", f"{sent['stream_bytes'] / 1e6:.0f} MB over the stream")
    return table


def _layouts(found: dict[str, Any]) -> Table:
    table = Table(title="Ways to divide the GPUs", title_justify="left", box=None, pad_edge=False)
    table.add_column("learner + engines", no_wrap=True)
    for name in ("GiB", "step", "rollouts", "update", "idle", "idle", "cost", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found["layouts"]:
        same = one["kind"] == found["chosen"]["kind"]
        chosen = same and one["learner_gpus"] == found["chosen"]["learner_gpus"]
        table.add_row(
            f"[b]{name_of(one)}[/b]" if chosen else name_of(one),
            f"{one['gpu_bytes'] / GIB:.1f}",
            f"{one['step_seconds']:.0f} s",
            f"{one['rollout_seconds']:.0f} s",
            f"{one['period']:.0f} s",
            f"{one['learner_idle']:.0%}",
            f"{one['engines_idle']:.0%}",
            f"{one['cost']:,.0f}",
            "[red]✗[/red]" if one["refusals"] else "[green]✓[/green]",
        )
    return table


def name_of(one: dict[str, Any]) -> str:
    if one["kind"] == "time_shared":
        return f"all on {one['learner_gpus']}, offload {one['offload']}"
    return f"{one['learner_gpus']} + {one['engine_gpus']}"


def refusals(found: dict[str, Any]) -> Iterator[str]:
    """Of the layouts that were not chosen, a line each."""
    for one in found["layouts"]:
        if one != found["chosen"] and one["refusals"]:
            yield f"{name_of(one)}: {one['refusals'][0]}"
