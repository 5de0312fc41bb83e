"""`envfarm sft CONFIG.toml`: supervised training on recorded attempts."""

from pathlib import Path
from typing import Annotated, Any

import typer

from envfarm_cli.campaign.files import read_json
from envfarm_cli.campaign.fitting import fit
from envfarm_cli.campaign.narration import Narration
from envfarm_cli.campaign.recipe import read_toml, set_keys
from envfarm_cli.children import ChildSet
from envfarm_cli.commands_stack import DEFAULT_STATE, JsonOption, StateDirOption
from envfarm_cli.evaluation_only import refuse_records
from envfarm_cli.failure import BadInput
from envfarm_cli.output import OK, Output
from envfarm_cli.state_dir import StateDir


def sft_(
    config: Annotated[
        Path, typer.Argument(help="Configuration (TOML); learner/configs/sft-tiny.toml is one.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override one key, SECTION.KEY=VALUE. Repeatable."),
    ] = None,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Train on recorded attempts: cross-entropy on the tokens that the policy itself said.

    The data are folders of what a gateway recorded, so prompts, masks and tool calls are those of
    the one renderer. No stack is needed. Stop it whenever you like: the same command goes on at
    the last checkpoint, bit for bit. The result is run.dir/model, which engines load and
    `envfarm train` starts from.

    Example: [b]envfarm sft learner/configs/sft-tiny.toml --set run.dir=runs/sft[/b]
    """
    out, state = Output(json), StateDir(state_dir)
    values = set_keys(read_toml(config), settings or [])
    run_dir, steps = _run_of(config, values)
    refuse_records(values, "supervised training")
    state.make()
    run_dir.mkdir(parents=True, exist_ok=True)
    narration = Narration(out, total=1)
    narration.stage("supervised training", f"from {config} into {run_dir}")
    with ChildSet() as children, narration.meter("steps", steps) as meter:
        fit(
            children,
            state,
            config,
            run_dir / "sft.log",
            run_dir,
            meter,
            settings=settings or [],
        )
    summary = read_json(run_dir / "summary.json")
    narration.say(
        f"{summary['steps']} steps on {summary['conversations']} conversations: loss "
        f"{summary['first_loss']:.3f} → {summary['last_loss']:.3f}"
    )
    narration.note(f"the model is {summary['model']}; look next at {run_dir}/metrics.jsonl")
    out.result({"ok": True, **summary})
    return OK


def _run_of(config: Path, values: dict[str, Any]) -> tuple[Path, int | None]:
    """(run.dir, run.steps); the learner checks all the rest itself."""
    run = values.get("run")
    if not isinstance(run, dict) or not isinstance(run.get("dir"), str):
        raise BadInput(f"{config}: run.dir is missing", hint="name the folder for the results")
    steps = run.get("steps")
    return Path(run["dir"]), steps if isinstance(steps, int) else None
