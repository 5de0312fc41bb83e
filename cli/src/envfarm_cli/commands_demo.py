"""`envfarm demo`: the learning demonstration, and the scripted run of the chain."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from envfarm_cli.commands_stack import (
    DEFAULT_DOMAINS,
    DEFAULT_STATE,
    DomainsOption,
    JsonOption,
    StateDirOption,
)
from envfarm_cli.demo.learning import learning_demo
from envfarm_cli.demo.recipe import DOMAIN, MOST_MINUTES, DemoRecipe
from envfarm_cli.demo.scripted import scripted_demo
from envfarm_cli.domain_files import find_tasks
from envfarm_cli.failure import BadInput
from envfarm_cli.output import Output
from envfarm_cli.state_dir import StateDir

DEFAULT_RECIPE = Path("learner/configs/tiny-cpu.toml")
EPILOG = (
    "Exit codes: 0 done, and the policy got better · 1 something failed · 2 wrong arguments or "
    "files · 3 done, and the interval does not lie above zero · 130 stopped with Ctrl-C."
)
Control = Literal["none", "permuted"]


def demo(
    seed: Annotated[int, typer.Option(min=0, help="Of weights, data order and schedules.")] = 1,
    minutes: Annotated[
        float,
        typer.Option(min=1, max=MOST_MINUTES, help="About how long it may take on two cores."),
    ] = 20,
    control: Annotated[
        Control,
        typer.Option(
            help="[b]permuted[/b] shuffles the rewards within each group before the learner sees "
            "them: nothing can be learned then, and the demo must say so."
        ),
    ] = "none",
    resume: Annotated[
        bool, typer.Option("--resume", help="Only go on with a demo that was interrupted.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Put an earlier demo of this recipe aside; begin anew.")
    ] = False,
    proof: Annotated[
        Path | None, typer.Option(help="Also write the summary to this file, with the machine.")
    ] = None,
    scripted: Annotated[
        bool,
        typer.Option(
            "--scripted", help="Instead: 8 scripted attempts, one group, one step; 1 to 4 minutes."
        ),
    ] = False,
    updates: Annotated[int, typer.Option(min=1, help="Of --scripted: groups and steps.")] = 1,
    recipe: Annotated[
        Path, typer.Option(help="The learner's configuration that the demo changes.")
    ] = DEFAULT_RECIPE,
    runs: Annotated[Path, typer.Option(help="Where the demo's folders are.")] = Path("runs/demo"),
    domains: DomainsOption = DEFAULT_DOMAINS,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """From nothing to a policy that got better, in about 20 minutes on two cores.

    Starts private services, proves the tasks, makes a small policy and warms it up on recorded
    conversations, probes the training tasks, evaluates on tasks that it never trains on, trains
    with GRPO, evaluates again on the same suite, and writes report.html, report.md and
    summary.json to runs/demo. Nothing is fixed in advance: when the interval of the difference
    does not lie above zero, the demo says so and exits with 3.

    Stop it whenever you like, with Ctrl-C or with kill -9: the same command goes on where it was.

    Example: [b]envfarm demo --seed 2[/b]
    """
    out = Output(json)
    find_tasks(domains, "" if scripted else DOMAIN)
    if not recipe.is_file():
        raise BadInput(
            f"there is no learner's configuration at {recipe}",
            hint="run envfarm in its repository, or give --recipe",
        )
    if scripted:
        return scripted_demo(
            out,
            StateDir(state_dir),
            domains=domains,
            updates=updates,
            recipe=recipe.absolute(),
            runs=runs,
        )
    return learning_demo(
        DemoRecipe.scaled(
            seed=seed, minutes=minutes, control=control, learner=recipe, domains=domains
        ),
        out,
        domains=domains.absolute(),
        runs=runs.absolute(),
        resume=resume,
        fresh=fresh,
        proof=proof,
    )
