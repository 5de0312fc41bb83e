"""`envfarm plan CONFIG.toml`: what a run needs, before a GPU is rented."""

from pathlib import Path
from typing import Annotated, Any

import typer

from envfarm_cli import plan_view
from envfarm_cli.commands_stack import DEFAULT_STATE, JsonOption, StateDirOption
from envfarm_cli.learner_module import ask
from envfarm_cli.output import FAILED, OK, Output, plain
from envfarm_cli.state_dir import StateDir


def plan_(
    config: Annotated[
        Path,
        typer.Argument(
            help="The learner's configuration with a \\[cluster] section, such as "
            "learner/configs/reference-q38-24xh100.toml."
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override one key, SECTION.KEY=VALUE. Repeatable."),
    ] = None,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Compute memory, time and cost of a run on its cluster, and compare ways to divide the GPUs.

    Nothing is started and no model is loaded. Memory is what DeepSpeed and vLLM allocate; times
    follow from the rates that \\[cluster] states, so replace them by what a probe measured. A run
    that cannot work is refused with the number that breaks, and the exit code is 1.

    Example: [b]envfarm plan learner/configs/reference-q38-24xh100.toml --set cluster.learner_gpus=12[/b]
    """
    out = Output(json)
    arguments: list[str | Path] = ["plan", "--config", config]
    for setting in settings or []:
        arguments += ["--set", setting]
    found: dict[str, Any] = ask("learner", arguments, StateDir(state_dir), "plan")
    for part in plan_view.parts(found):
        out.show(part)
    for line in plan_view.refusals(found):
        out.say(f"  ✗ {plain(line)}")
    chosen = found["chosen"]
    for sentence in chosen["refusals"]:
        out.say(f"[red]✗[/red] {plain(sentence)}")
    if not chosen["refusals"]:
        out.say(f"[green]✓[/green] it fits; {plain(plan_view.sentence(found))}")
    out.result(found)
    return FAILED if chosen["refusals"] else OK
