"""All commands of `envfarm` in one typer application."""

import typer
from typer.exceptions import TyperException

from envfarm_cli import failure
from envfarm_cli.bench.commands import app as bench_app
from envfarm_cli.commands_attempts import app as attempts_app
from envfarm_cli.commands_boards import boards
from envfarm_cli.commands_checkpoint import app as checkpoint_app
from envfarm_cli.commands_compare import compare_
from envfarm_cli.commands_demo import DEMO_EXIT_CODES, demo
from envfarm_cli.commands_episode import app as episode_app
from envfarm_cli.commands_eval import eval_
from envfarm_cli.commands_jobs import app as jobs_app
from envfarm_cli.commands_judge import app as judge_app
from envfarm_cli.commands_parity import parity
from envfarm_cli.commands_plan import plan_
from envfarm_cli.commands_probe import probe_
from envfarm_cli.commands_report import report_
from envfarm_cli.commands_select import select_
from envfarm_cli.commands_sft import sft_
from envfarm_cli.commands_stack import down, status, up
from envfarm_cli.commands_suite import app as suite_app
from envfarm_cli.commands_task_new import new, schema_
from envfarm_cli.commands_task_quality import lint_, similar, stats
from envfarm_cli.commands_task_trials import baselines, play
from envfarm_cli.commands_tasks import app as tasks_app
from envfarm_cli.commands_top import top
from envfarm_cli.commands_train import train_
from envfarm_cli.commands_verdict import app as verdict_app
from envfarm_cli.commands_watch import watch
from envfarm_cli.commands_world import app as world_app
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
for _command in (up, down, status, top, watch, boards, doctor, parity):
    app.command(epilog=EXIT_CODES)(_command)
app.command(epilog=DEMO_EXIT_CODES)(demo)
app.command("probe", epilog=EXIT_CODES)(probe_)
app.command("eval", epilog=EXIT_CODES)(eval_)
app.command("sft", epilog=EXIT_CODES)(sft_)
app.command("plan", epilog=EXIT_CODES)(plan_)
app.command("train", epilog=EXIT_CODES)(train_)
app.command("select", epilog=EXIT_CODES)(select_)
app.command("compare", epilog=EXIT_CODES)(compare_)
app.command("report", epilog=EXIT_CODES)(report_)
for _name, _command in (
    ("new", new),
    ("schema", schema_),
    ("lint", lint_),
    ("stats", stats),
    ("similar", similar),
    ("baselines", baselines),
    ("play", play),
):
    tasks_app.command(_name, epilog=EXIT_CODES)(_command)
app.add_typer(suite_app, name="suite")
app.add_typer(tasks_app, name="tasks")
app.add_typer(attempts_app, name="attempts")
app.add_typer(jobs_app, name="jobs")
app.add_typer(judge_app, name="judge")
app.add_typer(bench_app, name="bench")
app.add_typer(checkpoint_app, name="checkpoint")
app.add_typer(episode_app, name="episode")
app.add_typer(verdict_app, name="verdict")
app.add_typer(world_app, name="world")


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
