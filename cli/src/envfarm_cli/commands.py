"""All commands of `envfarm` in one typer application; a command's module is imported when it is asked
for, so that `envfarm status` does not wait for the statistics of `envfarm compare`."""

from functools import cache
from importlib import import_module

import typer
from typer._click.core import Command, Context
from typer.core import TyperGroup
from typer.exceptions import TyperException

from envfarm_cli import failure
from envfarm_cli.output import EXIT_CODES

COMMANDS = {
    "up": "commands_stack:up",
    "down": "commands_stack:down",
    "status": "commands_stack:status",
    "top": "commands_top:top",
    "watch": "commands_watch:watch",
    "boards": "commands_boards:boards",
    "doctor": "doctor:doctor",
    "parity": "commands_parity:parity",
    "demo": "commands_demo:demo",
    "probe": "commands_probe:probe_",
    "eval": "commands_eval:eval_",
    "sft": "commands_sft:sft_",
    "plan": "commands_plan:plan_",
    "train": "commands_train:train_",
    "select": "commands_select:select_",
    "compare": "commands_compare:compare_",
    "report": "commands_report:report_",
}
"""Where each stands; a module may have an EPILOG of its own."""
GROUPS = {
    "suite": "commands_suite",
    "import": "commands_import",
    "export": "commands_export",
    "tasks": "commands_tasks",
    "attempts": "commands_attempts",
    "jobs": "commands_jobs",
    "judge": "commands_judge",
    "bench": "bench.commands",
    "checkpoint": "commands_checkpoint",
    "episode": "commands_episode",
    "verdict": "commands_verdict",
    "world": "commands_world",
}
"""Modules whose `app` holds commands of one kind."""
MORE_OF_TASKS = {
    "new": "commands_task_new:new",
    "schema": "commands_task_new:schema_",
    "lint": "commands_task_quality:lint_",
    "stats": "commands_task_quality:stats",
    "similar": "commands_task_quality:similar",
    "baselines": "commands_task_trials:baselines",
    "play": "commands_task_trials:play",
}


class _Commands(TyperGroup):
    """Looks a command up by name, and imports no other."""

    def list_commands(self, ctx: Context) -> list[str]:
        return [*COMMANDS, *GROUPS]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        return _built(cmd_name)


@cache
def _built(name: str) -> Command | None:
    if name in COMMANDS:
        only = typer.Typer(add_completion=False, rich_markup_mode="rich")
        _add(only, name, COMMANDS[name])
        return typer.main.get_command(only)
    if name in GROUPS:
        app: typer.Typer = import_module(f"envfarm_cli.{GROUPS[name]}").app
        for more, place in MORE_OF_TASKS.items() if name == "tasks" else ():
            _add(app, more, place)
        app.info.name = name
        return typer.main.get_group(app)
    return None


def _add(app: typer.Typer, name: str, place: str) -> None:
    module_name, function = place.split(":")
    module = import_module(f"envfarm_cli.{module_name}")
    epilog = getattr(module, "EPILOG", EXIT_CODES)
    app.command(name, epilog=epilog)(getattr(module, function))


app = typer.Typer(
    name="envfarm",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help=(
        "Trains and evaluates tool-using agents on real business databases.\n\n"
        "First steps: [b]envfarm doctor[/b] looks at this machine, [b]envfarm demo[/b] trains a "
        "small policy from nothing, [b]envfarm up[/b] starts the stack and leaves it running."
    ),
    epilog=EXIT_CODES,
)


@app.callback()
def _envfarm() -> None:
    pass


def run(arguments: list[str]) -> int:
    """The exit code; raises Failure, BadInput for arguments that are not understood."""
    try:
        return app(arguments, prog_name="envfarm", standalone_mode=False) or 0
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        return 130
    except TyperException as error:
        raise failure.BadInput(error.format_message(), hint=_help_hint(error)) from error


def _help_hint(error: TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f"see `{context.command_path if context else 'envfarm'} --help`"
