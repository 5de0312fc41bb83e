"""`envfarm verdict show` and `envfarm verdict regrade`."""

import json as json_format
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import httpx
import typer

from envfarm_cli.commands_stack import DEFAULT_STATE, JsonOption, StateDirOption
from envfarm_cli.failure import BadInput, Failure, NotRunning
from envfarm_cli.output import EXIT_CODES, OK, Output
from envfarm_cli.state_dir import StateDir
from envfarm_cli.verdict_view import render

app = typer.Typer(
    no_args_is_help=True,
    help="Look at verdicts, and give them again on kept evidence.",
    rich_markup_mode="rich",
    epilog=EXIT_CODES,
)
GraderOption = Annotated[
    str, typer.Option(help="URL of a grader; without it the stack of --state-dir is asked.")
]
TokenOption = Annotated[
    str, typer.Option(envvar="ENVFARM_GRADER_TOKEN", help="A bearer token of that grader.")
]
WholeOption = Annotated[bool, typer.Option("--whole", help="Do not shorten texts and hashes.")]


@app.command(epilog=EXIT_CODES)
def show(
    verdict: Annotated[
        str, typer.Argument(help="Verdict id, such as v-66e7…, or a JSON file; - reads stdin.")
    ],
    whole: WholeOption = False,
    grader: GraderOption = "",
    token: TokenOption = "",
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Show a verdict: status, each check with what it expected and saw, the row diff, all hashes.

    Example: [b]envfarm verdict show v-66e738203a39512dfe6218bd3020b283[/b]

    A verdict that was saved as JSON can be shown without a grader:
    [b]curl … /v1/grade | envfarm verdict show -[/b]
    """
    if verdict == "-" or Path(verdict).is_file():
        text = sys.stdin.read() if verdict == "-" else Path(verdict).read_text(encoding="utf-8")
        found = _parsed(text, verdict)
    else:
        url, key = _door(grader, token, StateDir(state_dir))
        found = _ask("GET", f"{url}/v1/verdicts/{quote(verdict, safe='')}", key)
    _print(found, Output(json), whole)
    return OK


@app.command(epilog=EXIT_CODES)
def regrade(
    verdict: Annotated[str, typer.Argument(help="Verdict id.")],
    checks: Annotated[
        str, typer.Option(help="current, original, or the rules_hash of another verdict.")
    ] = "current",
    whole: WholeOption = False,
    grader: GraderOption = "",
    token: TokenOption = "",
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Grade the kept evidence of a verdict again, by the same or by other checks.

    No episode, no database and no model is asked. With the same checks the answer is the same
    verdict, byte for byte, or an error.

    Example: [b]envfarm verdict regrade v-66e738203a39512dfe6218bd3020b283 --checks original[/b]
    """
    url, key = _door(grader, token, StateDir(state_dir))
    found = _ask("POST", f"{url}/v1/regrade", key, {"verdict_id": verdict, "checks": checks})
    _print(found, Output(json), whole)
    return OK


def _print(found: dict[str, Any], out: Output, whole: bool) -> None:
    if not out.as_json:
        try:
            out.show(render(found, whole=whole))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise BadInput(
                f"this is no verdict of a grader: {type(error).__name__} {error}",
                hint="--json prints it as it is",
            ) from error
    out.result({"ok": True, "verdict": found})


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        value = json_format.loads(text)
    except ValueError as error:
        raise BadInput(f"{name} holds no JSON: {error}") from error
    inner = value.get("verdict", value) if isinstance(value, dict) else None
    if not isinstance(inner, dict) or "verdict_id" not in inner:
        raise BadInput(f"{name} holds no verdict", hint="give the answer of POST /v1/grade")
    return inner


def _door(grader: str, token: str, state: StateDir) -> tuple[str, str]:
    """URL and token: those given, else those of the running stack."""
    if grader:
        return grader.rstrip("/"), token
    found = state.read()
    for process in found.processes if found else ():
        if process.name == "grader" and process.http and process.exit_status is None:
            return f"http://{process.http.removeprefix('http://')}", state.secrets()[
                "grader_client"
            ]
    raise NotRunning(
        f"no grader runs in {state.path}",
        hint="start one with `envfarm up`, or name one with --grader and --token",
    )


def _ask(method: str, url: str, token: str, body: Any = None) -> dict[str, Any]:
    try:
        answer = httpx.request(
            method,
            url,
            json=body,
            headers={"authorization": f"Bearer {token}"},
            timeout=60,
            trust_env=False,
        )
        value = answer.json()
    except httpx.HTTPError as error:
        raise NotRunning(f"the grader at {url} does not answer: {error}") from error
    except ValueError as error:
        raise Failure(f"{url} answers something that is no JSON; is it a grader?") from error
    if answer.status_code != 200:
        detail = value.get("detail", answer.text[:300])
        raise Failure(f"the grader refuses: {detail}", hint=str(value.get("hint", "")))
    return value
