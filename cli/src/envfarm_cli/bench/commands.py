"""The `envfarm bench` group of commands."""

import typer

from envfarm_cli.bench.env import env
from envfarm_cli.bench.gateway import gateway
from envfarm_cli.bench.grader import grader
from envfarm_cli.bench.learner import learner
from envfarm_cli.bench.select import select_
from envfarm_cli.output import EXIT_CODES

app = typer.Typer(
    no_args_is_help=True,
    help="Figures of this machine, each beside its floor from the same run.",
    epilog=EXIT_CODES,
)
app.command(epilog=EXIT_CODES)(env)
app.command(epilog=EXIT_CODES)(gateway)
app.command(epilog=EXIT_CODES)(grader)
app.command(epilog=EXIT_CODES)(learner)
app.command("select", epilog=EXIT_CODES)(select_)


@app.callback()
def _bench() -> None:
    """Figures of this machine, each beside its floor from the same run."""
