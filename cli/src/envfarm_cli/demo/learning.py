"""The learning demonstration: from nothing to a policy that got better, as one resumable campaign."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from envfarm_cli.campaign.farm import Farm, farm_of, own_stack
from envfarm_cli.campaign.folder import CampaignFolder, put_aside
from envfarm_cli.campaign.narration import Narration
from envfarm_cli.campaign.publication import serve_weights
from envfarm_cli.campaign.stages import Stages
from envfarm_cli.demo.conclusion import conclude
from envfarm_cli.demo.context import DemoContext
from envfarm_cli.demo.experiment import evaluate_suite, probe_and_select, train_policy
from envfarm_cli.demo.preparation import prove, start, warm_up
from envfarm_cli.demo.recipe import DemoRecipe
from envfarm_cli.failure import BadInput, Failure
from envfarm_cli.output import Output, plain
from envfarm_cli.service_specs import StackOptions
from envfarm_cli.stack import Stack
from envfarm_cli.state_dir import StateDir

STAGES = 8


def learning_demo(
    recipe: DemoRecipe,
    out: Output,
    *,
    domains: Path,
    runs: Path,
    resume: bool,
    fresh: bool,
    proof: Path | None,
) -> int:
    """Run it, or go on with it; the exit code: 3 when the policy did not get better."""
    path = runs / recipe.run_id
    if resume and not (path / "stages.json").exists():
        raise BadInput(
            f"there is nothing to resume in {path}", hint="without --resume the demo begins"
        )
    if fresh and (aside := put_aside(path)):
        out.say(f"the earlier demo is now {plain(aside)}")
    begun = (path / "stages.json").exists()
    out.say(
        f"[b]envfarm demo[/b], seed {recipe.seed}: made for {recipe.minutes:g} min on two idle cores. "
        f"{'It goes on' if begun else 'Everything is'} in {plain(path)}"
    )
    out.say("[dim]Stop it whenever you like; the same command goes on where it was.[/dim]")
    with CampaignFolder(path, recipe) as folder:
        stages = Stages(folder.path, recipe.hash)
        narration = Narration(out, STAGES, stages.beat)
        run(
            DemoContext(
                recipe=recipe,
                path=folder.path,
                domains=shelf(
                    folder.path, domains, recipe.domain, recipe.train_tasks_of_a_workflow
                ),
                stages=stages,
                narration=narration,
            )
        )
        return conclude(stages, folder, recipe, runs, narration, proof)


def shelf(folder: Path, domains: Path, domain: str, train_tasks: int) -> Path:
    """A copy of the one domain, so that services start fast and a resumed demo finds what it knew.

    The copy has more training tasks than the repository keeps; the held-out ones are the same.
    """
    path = folder / "domains"
    if not path.exists():
        copy = folder / f".domains.{os.getpid()}"
        shutil.copytree(
            domains / domain, copy / domain, ignore=shutil.ignore_patterns("__pycache__")
        )
        script = copy / domain / "families.py"
        done = subprocess.run(
            [sys.executable, script, "--train-tasks", str(train_tasks)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise Failure(f"{script} wrote no tasks: {reason}")
        copy.rename(path)
    return path


def run(context: DemoContext) -> None:
    """All stages in order; each is skipped when its result is there and verified."""
    if context.stages.is_done("after", ("train", "before")):
        context.narration.note("everything was measured before; the report is made from it")
        return
    options = StackOptions(
        domains=context.domains,
        engine="vllm",
        model=context.path / "model",
        gateway_state=context.path / "gateway",
        gateway_settings=context.recipe.gateway_settings(),
        max_model_len=context.recipe.max_tokens,
    )
    with own_stack(StateDir(context.path / "state"), options, context.narration.note) as stack:
        start(context, stack)
        prove(context, stack)
        warm_up(context, stack)
        with _serving(context, stack) as farm:
            probe_and_select(context, farm)
            evaluate_suite(context, farm, "before", 0)
            train_policy(context, farm)
            evaluate_suite(context, farm, "after", context.recipe.train.updates)


@contextmanager
def _serving(context: DemoContext, stack: Stack) -> Iterator[Farm]:
    """vLLM and gateway serve; version 0 is the warm-started policy until training begins."""
    with context.stages.timed("serve"):
        with context.narration.meter("waiting for vLLM") as meter:
            meter.at(0)
            stack.wait_for_engine()
        stack.start_gateway()
    with farm_of(stack) as farm:
        if not context.stages.is_done("before", ("warm-start",)):
            with context.stages.timed("serve"):
                _serve_version_0(context, farm)
        yield farm


def _serve_version_0(context: DemoContext, farm: Farm) -> None:
    serve_weights(
        farm,
        context.recipe.run_id,
        context.warm_model,
        context.path / "training",
        context.learner,
        context.recipe.learner_overrides(),
    )
