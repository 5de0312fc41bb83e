"""`envfarm suite freeze` and `show`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from envfarm_cli.campaign.files import write_durably
from envfarm_cli.campaign.opening import parse_tags
from envfarm_cli.commands_stack import DEFAULT_DOMAINS, DomainsOption, JsonOption
from envfarm_cli.failure import BadInput
from envfarm_cli.output import EXIT_CODES, FAILED, OK, Output, plain
from envfarm_cli.task_facts_files import facts_of, known_domains, read_facts
from envfarm_numbers.suite import Suite

app = typer.Typer(
    no_args_is_help=True,
    help="Frozen lists of tasks for evaluations, with a content hash.",
    rich_markup_mode="rich",
    epilog=EXIT_CODES,
)


@app.callback()
def _group() -> None:
    """Frozen lists of tasks for evaluations, with a content hash."""


@app.command(epilog=EXIT_CODES)
def freeze(
    name: Annotated[str, typer.Argument(help="Name of the suite; it does not enter its hash.")],
    out_file: Annotated[
        Path | None, typer.Option("--out", help="File to write; without it suites/NAME.json.")
    ] = None,
    task: Annotated[
        list[str] | None, typer.Option("--task", help="A task by id. Repeatable.")
    ] = None,
    domain: Annotated[str, typer.Option("--domain", help="All tasks of this domain.")] = "",
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", help="Only tasks with this tag, such as split=eval. Repeatable."),
    ] = None,
    domains: DomainsOption = DEFAULT_DOMAINS,
    json: JsonOption = False,
) -> int:
    """Freeze tasks as they are now: ids with the hashes of their content.

    An evaluation of the suite is of exactly this content; it refuses to start when a task has
    changed. A suite that exists is never overwritten with another content.

    Example: [b]envfarm suite freeze held-out --domain counter --tag split=eval[/b]
    """
    out, target = Output(json), out_file or Path("suites") / f"{name}.json"
    if task and (domain or tag):
        raise BadInput("--task names tasks; --domain and --tag choose them: give one or the other")
    if task:
        facts = facts_of(domains, task)
    else:
        facts = list(read_facts(domains, [domain] if domain else [], tags=parse_tags(tag)).values())
    suite = Suite.freeze(name, facts)
    if target.exists() and Suite.read(target, biased=True).hash != suite.hash:
        raise BadInput(
            f"{target} holds another suite", hint="a suite is never changed; choose another name"
        )
    write_durably(target, suite.to_json().encode())
    out.say(f"{len(suite.tasks)} tasks, hash {suite.hash[:12]}…, in {plain(target)}")
    out.say(f"evaluate it with `envfarm eval --name NAME --suite {plain(target)}`")
    out.result({"ok": True, "file": str(target), "hash": suite.hash, "tasks": suite.tasks})
    return OK


@app.command(epilog=EXIT_CODES)
def show(
    file: Annotated[Path, typer.Argument(help="A suite, or a selection's train.json.")],
    domains: DomainsOption = DEFAULT_DOMAINS,
    json: JsonOption = False,
) -> int:
    """Show a suite and whether the domains still hold its tasks as they were frozen.

    Exit code 1 when a task has changed or is gone.

    Example: [b]envfarm suite show suites/held-out.json[/b]
    """
    out, suite = Output(json), Suite.read(file, biased=True)
    names = known_domains(domains, suite.tasks)
    facts = read_facts(domains, names) if names else {}
    now = {task_id: known.task_hash for task_id, known in facts.items()}
    states = {
        task: "as frozen" if now.get(task) == known else "changed" if task in now else "gone"
        for task, known in suite.tasks.items()
    }
    table = Table(Column("task", no_wrap=True), "content hash", "now")
    for task, known in suite.tasks.items():
        state = states[task]
        shown = state if state == "as frozen" else f"[red]{state}[/red]"
        table.add_row(plain(task), known[:12], shown)
    out.show(table)
    if suite.warning:
        out.say(f"[yellow]{suite.warning}[/yellow]")
    wrong = [task for task, state in states.items() if state != "as frozen"]
    out.say(
        f"{plain(suite.name)}: {len(suite.tasks)} tasks, hash {suite.hash}, {len(wrong)} changed"
    )
    out.result(
        {
            "ok": not wrong,
            "name": suite.name,
            "hash": suite.hash,
            "biased": suite.biased,
            "tasks": suite.tasks,
            "states": states,
        }
    )
    return FAILED if wrong else OK
