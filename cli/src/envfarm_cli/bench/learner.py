"""`envfarm bench learner`: the learner's update beside the bare model's forward and backward."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from envfarm_cli.commands_stack import DEFAULT_STATE, JsonOption, StateDirOption
from envfarm_cli.learner_module import ask
from envfarm_cli.output import OK, Output
from envfarm_cli.state_dir import StateDir

ROWS = {
    "learner_tokens_per_s": ("learner", "tokens/s", "{:,.0f}"),
    "bare_tokens_per_s": ("bare forward + backward", "tokens/s", "{:,.0f}"),
    "ratio": ("learner ÷ bare", "median of pairs", "{:.3f}"),
    "trl_tokens_per_s": ("TRL's GRPO loss", "tokens/s", "{:,.0f}"),
    "trl_loss_gap": ("loss beside TRL's", "|difference|", "{:.1e}"),
    "trl_gradient_gap": ("gradient beside TRL's", "relative", "{:.1e}"),
    "padding_waste": ("padding", "share of positions", "{:.1%}"),
    "peak_extra_bytes_vocab_8k": ("extra memory, vocabulary 8 k", "bytes", "{:,}"),
    "peak_extra_bytes_vocab_128k": ("extra memory, vocabulary 128 k", "bytes", "{:,}"),
    "publish_seconds": ("write a policy version", "seconds", "{:.2f}"),
    "resume_exact": ("resumed run equals undisturbed one", "bit for bit", "{}"),
}


def learner(
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved pairs of the ratio.")] = 3,
    memory: Annotated[
        bool, typer.Option("--memory/--no-memory", help="Measure the two peaks of memory.")
    ] = True,
    trl_python: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="An interpreter that has TRL (python -m venv trl; trl/bin/pip install trl): its "
            "GRPO loss is timed on the same tokens, and loss and gradient are compared.",
        ),
    ] = None,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Measure the learner on this machine: 20 M parameters, some 8,000 packed tokens at once.

    The floor is the same model on the same packed row with the same attention and a plain
    cross-entropy. Neither side checkpoints activations or makes a second forward pass; the
    learner's figure holds its loss, entropy and all other numbers of an update.

    Example: [b]envfarm bench learner --no-memory --json[/b]
    """
    out = Output(json)
    arguments: list[str | Path] = ["--rounds", str(rounds)]
    if not memory:
        arguments.append("--skip-memory")
    if trl_python is not None:
        arguments += ["--trl-python", trl_python]
    figures = ask("learner.bench", arguments, StateDir(state_dir), "bench learner")
    out.show(_table(figures))
    out.result({"ok": True, **figures})
    return OK


def _table(figures: dict[str, Any]) -> Table:
    table = Table("figure", "value", "unit", box=None)
    for key, (name, unit, form) in ROWS.items():
        if figures.get(key) is not None:
            table.add_row(name, form.format(figures[key]), unit)
    return table
