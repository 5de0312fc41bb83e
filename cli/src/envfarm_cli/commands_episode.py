"""`envfarm episode show`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from envfarm_cli.commands_stack import DEFAULT_STATE, JsonOption, StateDirOption
from envfarm_cli.episode_view import render
from envfarm_cli.failure import BadInput
from envfarm_cli.output import EXIT_CODES, OK, Output
from envfarm_cli.records import load_attempt
from envfarm_cli.state_dir import StateDir

app = typer.Typer(
    no_args_is_help=True,
    help="Look at recorded attempts.",
    rich_markup_mode="rich",
    epilog=EXIT_CODES,
)


@app.callback()
def _group() -> None:
    """Look at recorded attempts."""


@app.command(epilog=EXIT_CODES)
def show(
    rollout: Annotated[
        str, typer.Argument(help="Id of the attempt, such as demo.0.0.s3.a1, or its episode id.")
    ],
    whole: Annotated[bool, typer.Option("--whole", help="Do not shorten long texts.")] = False,
    gateway: Annotated[
        str, typer.Option(help="URL of a gateway; without it the stack of --state-dir is asked.")
    ] = "",
    token: Annotated[
        str,
        typer.Option(envvar="ENVFARM_GATEWAY_TOKEN", help="Its infrastructure token."),
    ] = "",
    records: Annotated[
        Path | None, typer.Option(help="Read from this gateway state folder, without a gateway.")
    ] = None,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Show one attempt: the conversation with its tool calls, the state diff and the verdict.

    Works on a running stack, and on the records that a stopped one left.

    Example: [b]envfarm episode show demo.0.0.s3.a1 --json | jq .attempt.verdict[/b]
    """
    out = Output(json)
    found = load_attempt(
        rollout, StateDir(state_dir), gateway=gateway, token=token, records=records
    )
    if not json:
        out.show(_rendered(found, rollout, whole=whole))
    out.result({"ok": True, "attempt": found})
    return OK


def _rendered(found: dict[str, Any], rollout: str, *, whole: bool) -> RenderableType:
    try:
        return render(found, whole=whole)
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"the record of {rollout} cannot be shown: {type(error).__name__} {error}",
            hint="another version of envfarm wrote it; --json prints it as it is",
        ) from error
