"""`envfarm checkpoint export`: a learner's checkpoint as a folder that engines load."""

from pathlib import Path
from typing import Annotated

import typer

from envfarm_cli.commands_stack import DEFAULT_STATE, JsonOption, StateDirOption
from envfarm_cli.learner_module import ask
from envfarm_cli.output import EXIT_CODES, OK, Output, plain
from envfarm_cli.state_dir import StateDir

app = typer.Typer(no_args_is_help=True, help="Checkpoints of a training run.", epilog=EXIT_CODES)


@app.callback()
def _checkpoint() -> None:
    """Checkpoints of a training run."""


@app.command(epilog=EXIT_CODES)
def export(
    run_dir: Annotated[
        Path, typer.Argument(help="The learner's folder: it has checkpoints/ and config.json.")
    ],
    out_dir: Annotated[Path, typer.Argument(help="A new folder for the model.")],
    checkpoint: Annotated[
        str | None, typer.Option(help="Name of a checkpoint; the newest without it.")
    ] = None,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Write a checkpoint's weights as safetensors, with configuration and tokenizer.

    Every file of the checkpoint is verified before it is read, and the weights must have the hash
    under which their policy version was published. vLLM and transformers load the folder.

    Example: [b]envfarm checkpoint export runs/a/learner runs/a/model --checkpoint checkpoint-000005[/b]
    """
    out = Output(json)
    arguments: list[str | Path] = ["export", "--run", run_dir, "--out", out_dir]
    if checkpoint:
        arguments += ["--checkpoint", checkpoint]
    answer = ask("learner", arguments, StateDir(state_dir), "export")
    out.say(
        f"[green]✓[/green] {answer['checkpoint']}, policy version {answer['version']} → "
        f"{plain(answer['path'])}"
    )
    out.say(f"  weights {answer['weights_hash']}")
    out.result({"ok": True, **answer})
    return OK
