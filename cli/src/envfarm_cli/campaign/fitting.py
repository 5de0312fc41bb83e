"""Supervised training as a campaign sees it: `python -m learner.sft`, followed step by step."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from envfarm_cli import service_specs
from envfarm_cli.campaign.files import whole_lines
from envfarm_cli.campaign.narration import Meter
from envfarm_cli.children import ChildSet, died
from envfarm_cli.state_dir import StateDir

SHOWN_STEPS = 20
"""The loss that is shown is the mean of so many."""


def fit(
    children: ChildSet,
    state: StateDir,
    config: Path,
    log: Path,
    run_dir: Path,
    meter: Meter,
    check: Callable[[], None] = lambda: None,
    *,
    settings: Sequence[str] = (),
) -> None:
    """Run to the end, from the last checkpoint of `run_dir`; ChildFailed when it does not get there."""
    spec = service_specs.sft(state, config, settings)
    child = children.start(spec.name, spec.argv, env=spec.env, log=log)

    def tick() -> None:
        check()
        lines = whole_lines(run_dir / "metrics.jsonl")
        losses = [json.loads(line)["loss"] for line in lines[-SHOWN_STEPS:]]
        if losses:
            meter.at(len(lines), f"loss {sum(losses) / len(losses):.3f}")

    if children.wait_end(child, tick):
        raise died(child, "while learning")
