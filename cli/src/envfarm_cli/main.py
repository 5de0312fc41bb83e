"""The `envfarm` command. Here, and only here, an error becomes one line and an exit code."""

import sys
import traceback

import typer
from typer.exceptions import TyperException

from envfarm_cli import failure, interrupts, settings
from envfarm_cli.bench_episode import app as bench_app
from envfarm_cli.commands_episode import app as episode_app
from envfarm_cli.commands_stack import down, status, up
from envfarm_cli.commands_tasks import app as tasks_app
from envfarm_cli.demo import demo
from envfarm_cli.doctor import doctor
from envfarm_cli.output import EXIT_CODES

app = typer.Typer(
    name="envfarm",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help=(
        "Trains and evaluates tool-using agents on real business databases.\n\n"
        "First steps: [b]envfarm doctor[/b] looks at this machine, [b]envfarm demo[/b] runs the "
        "whole chain once, [b]envfarm up[/b] starts the stack and leaves it running."
    ),
    epilog=EXIT_CODES,
)
for _command in (up, down, status, doctor, demo):
    app.command(epilog=EXIT_CODES)(_command)
app.add_typer(tasks_app, name="tasks")
app.add_typer(bench_app, name="bench")
app.add_typer(episode_app, name="episode")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in given
    try:
        with interrupts.caught():
            return _run(given)
    except interrupts.Interrupted as stop:
        print(f"\nstopped by {stop}; nothing of it is left running", file=sys.stderr)
        return stop.exit_code
    except BrokenPipeError:
        # The reader of our output has gone; there is nobody to tell.
        sys.stderr.close()
        return 1
    except Exception as error:  # noqa: BLE001 - top level of the process
        if settings.debug():
            traceback.print_exc()
        return failure.report(failure.as_failure(error), as_json=as_json)


def _run(arguments: list[str]) -> int:
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


if __name__ == "__main__":
    raise SystemExit(main())
