"""The demonstration before anything is measured: services, proofs, and the warmed-up policy."""

from functools import partial
from typing import Any

from envfarm_cli.campaign.narration import Meter
from envfarm_cli.campaign.stages import Stage
from envfarm_cli.commands_tasks import summary as proof_summary
from envfarm_cli.demo.context import DemoContext
from envfarm_cli.demo.warm_start import make_model, play_demonstrations, warm_start
from envfarm_cli.domain_files import find_tasks
from envfarm_cli.failure import Failure
from envfarm_cli.stack import Stack

PROVED_AT_ONCE = 70
"""Tasks of a part; each part costs a process that starts, and a kill at most one part."""


def start(context: DemoContext, stack: Stack) -> None:
    """The model that vLLM starts with, and all services but the gateway."""
    context.say(
        "the stack",
        "Valkey, Postgres behind the env-server, grader, and vLLM, which loads in the "
        "background; all are private processes of this demo",
        about="20 s",
    )
    context.once(
        "model",
        lambda: make_model(stack, context.path / "model", context.recipe, context.domains),
        files=(context.path / "model" / "model.safetensors",),
    )
    with context.stages.timed("stack"):
        stack.start_engine()
        stack.start_valkey()
        stack.start_env_server()
        stack.start_grader()


def prove(context: DemoContext, stack: Stack) -> None:
    """Every task of the domain proves itself before it is used."""
    context.say(
        "proofs",
        "every task proves itself: its golden run passes twice, doing nothing fails, and every "
        "mutant of the golden run is caught",
        about="2 min",
    )

    ids = [files.task_id for files in find_tasks(context.domains, context.recipe.domain)]
    parts = [ids[start : start + PROVED_AT_ONCE] for start in range(0, len(ids), PROVED_AT_ONCE)]
    names = tuple(f"proofs-{number}" for number in range(1, len(parts) + 1))
    with context.narration.meter("tasks proved", len(ids)) as meter:
        for number, (name, part) in enumerate(zip(names, parts, strict=True)):
            before = number * PROVED_AT_ONCE
            work = partial(_prove_part, context, stack, part, before, meter)
            context.stages.run(Stage(name=name, work=work))
            meter.at(before + len(part))

    def work_all() -> dict[str, Any]:
        found = [context.stages.result(name) for name in names]
        keys = ("tasks", "passed", "mutants", "mutants_killed")
        return {key: sum(one[key] for one in found) for key in keys}

    found = context.stages.run(Stage(name="proofs", needs=names, work=work_all))
    context.narration.say(
        f"{found['passed']} of {found['tasks']} tasks proved, {found['mutants_killed']} of "
        f"{found['mutants']} mutants caught"
    )


def _prove_part(
    context: DemoContext, stack: Stack, tasks: list[str], before: int, meter: Meter
) -> dict[str, Any]:
    """One part, so that a kill costs no more than it."""
    done = before

    def on_line(text: str) -> None:
        nonlocal done
        done += 1
        meter.at(done)

    proofs = stack.prove(context.recipe.domain, on_line, tasks)
    if proofs.failures or proofs.tasks < len(tasks):
        task, reason = (proofs.failures or [(tasks[0], "the grader does not know it")])[0]
        raise Failure(f"{task} is not proved: {reason}", hint="`envfarm tasks validate`")
    return proof_summary(proofs)


def warm_up(context: DemoContext, stack: Stack) -> None:
    """Recorded conversations, and a policy that has learned their form from them."""
    context.say(
        "a small policy",
        "a Qwen3-architecture model learns the conversation's form from recorded golden and "
        "nearly golden attempts; it still decides badly",
        about="6 min",
    )
    played = context.once(
        "demonstrations",
        lambda: play_demonstrations(stack, context.path, context.recipe, context.narration),
    )
    context.narration.say(
        f"{played['conversations']} conversations recorded through the real gateway, "
        f"{100 * played['reward_mean']:.0f} % of them right"
    )
    fitted = context.once(
        "warm-start",
        lambda: warm_start(stack, context.path, context.recipe, context.narration),
        needs=("model", "demonstrations"),
        files=(context.warm_model / "model.safetensors",),
    )
    context.narration.say(
        f"{fitted['steps']} steps of supervised learning: loss {fitted['first_loss']:.2f} → "
        f"{fitted['last_loss']:.2f}"
    )
