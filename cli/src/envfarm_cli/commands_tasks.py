"""`envfarm tasks list`, `show` and `validate`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from envfarm_cli.authoring.server_apart import server_apart
from envfarm_cli.commands_stack import (
    DEFAULT_DOMAINS,
    DEFAULT_STATE,
    DomainsOption,
    JsonOption,
    StateDirOption,
)
from envfarm_cli.domain_files import TaskFiles, find_task, find_tasks, read_yaml
from envfarm_cli.failure import BadInput
from envfarm_cli.output import EXIT_CODES, FAILED, OK, Output, plain
from envfarm_cli.proofs import ProofChoice, Proofs, prove
from envfarm_cli.state_dir import StateDir

app = typer.Typer(
    no_args_is_help=True,
    help="Look at the tasks of the domains, and prove that their checks hold.",
    rich_markup_mode="rich",
    epilog=EXIT_CODES,
)
DomainOption = Annotated[str, typer.Option("--domain", help="Only tasks of this domain.")]
StandInJudgeOption = Annotated[
    bool,
    typer.Option(
        "--stand-in-judge",
        help="Rubrics are answered without a model: as expected for golden replies, and the "
        "opposite for any other text.",
    ),
]


@app.command("list", epilog=EXIT_CODES)
def list_(
    domain: DomainOption = "",
    domains: DomainsOption = DEFAULT_DOMAINS,
    json: JsonOption = False,
) -> int:
    """List all tasks with their tags, from the files; no stack is needed.

    Example: [b]envfarm tasks list --domain orders[/b]
    """
    out = Output(json)
    found = [_public(files) for files in find_tasks(domains, domain)]
    table = Table(Column("task", no_wrap=True), "workflow", "failure mode", "split")
    for task in found:
        tags = (task["tags"].get(tag, "") for tag in ("workflow", "failure_mode", "split"))
        table.add_row(plain(task["id"]), *map(plain, tags))
    out.show(table)
    out.say(f"{len(found)} tasks; `envfarm tasks show ID` shows one")
    out.result({"ok": True, "tasks": found})
    return OK


@app.command(epilog=EXIT_CODES)
def show(
    task: Annotated[str, typer.Argument(help="Task id, such as orders/refund-damaged.")],
    private: Annotated[
        bool, typer.Option("--private", help="Also the golden actions and the checks.")
    ] = False,
    domains: DomainsOption = DEFAULT_DOMAINS,
    json: JsonOption = False,
) -> int:
    """Show one task: what the agent is told, who the user is, and, if asked, how it is judged.

    Example: [b]envfarm tasks show orders/refund-damaged --private[/b]
    """
    out, files = Output(json), find_task(domains, task)
    shown: dict[str, Any] = _public(files)
    shown["user"] = read_yaml(files.user)
    if private:
        shown["private"] = read_yaml(files.private)
    out.say(f"[b]{plain(files.task_id)}[/b]  {plain(files.public)}")
    out.say(f"[b]opening[/b]  {plain(shown['opening'])}")
    out.say(f"[b]limits[/b]   {plain(_pairs(shown['limits']))}")
    out.say(f"[b]tags[/b]     {plain(_pairs(shown['tags']))}")
    out.say(f"[b]user[/b]     {plain(str(shown['user'].get('context', '')).strip())}")
    for line in shown["user"].get("script", []):
        out.say(f"         when /{plain(line.get('when'))}/ says {plain(line.get('say'))}")
    if private:
        _show_private(shown["private"], out)
    out.result({"ok": True, "task": shown})
    return OK


@app.command(epilog=EXIT_CODES)
def validate(
    task: Annotated[
        list[str] | None, typer.Option("--task", help="Only this task id. Repeatable.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every task of every domain.")] = False,
    domain: DomainOption = "",
    jobs: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Episodes at once; 8 suit two cores.")
    ] = None,
    stand_in_judge: StandInJudgeOption = False,
    domains: DomainsOption = DEFAULT_DOMAINS,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Prove tasks: the golden run passes twice, doing nothing fails, every mutant is caught.

    Mutants come from a fixed catalogue: a call dropped, an argument changed, dependent calls in the
    wrong order, an extra write, a neighbour's record, a run half done, a run done twice, and the
    near misses that the task declares. One that is right all the same is declared under
    `equivalent` in the task's private file, with the rows in which it differs; more than 5 % of
    them fail the run, and so do fewer than 12 mutants of a task where whole domains are proved.
    The kinds of checks and what they may declare: docs/checks.md.

    Runs on an env-server of its own that ends with the command, so it reads the files as they
    are now and disturbs no running stack. A mistake in a file is named with its line.

    Example: [b]envfarm tasks validate --task orders/refund-damaged[/b]
    """
    out, chosen = Output(json), task or []
    if sum((bool(chosen), all_, bool(domain))) != 1:
        raise BadInput("say which tasks", hint="give one of --all, --domain NAME and --task ID")
    files = [find_task(domains, name) for name in chosen] or find_tasks(domains, domain)
    for found in files:
        for path in (found.public, found.user, found.private):
            read_yaml(path)
    choice = ProofChoice(domain=domain, tasks=chosen, jobs=jobs, stand_in_judge=stand_in_judge)
    proofs = _prove_apart(StateDir(state_dir), domains, files, choice, out)
    for name, reason in proofs.failures:
        out.say(f"[red]✗[/red] {plain(name)}: {plain(reason)}")
    for idle in proofs.idle_checks:
        text = f"{idle['task']}: no wrong run fails the check {idle['check']!r}"
        out.say(f"[yellow]![/yellow] {plain(text)}")
    for name, count in proofs.few_mutants.items():
        if chosen:
            text = f"{name}: only {count} mutants; declare more near misses"
            out.say(f"[yellow]![/yellow] {plain(text)}")
    _show_kinds(proofs, out)
    out.say(
        f"{proofs.passed} of {proofs.tasks} tasks proved, {proofs.mutants_killed} of"
        f" {proofs.mutants} mutants caught, {proofs.equivalent_declared} declared equivalent;"
        f" {proofs.episodes} episodes in {proofs.seconds:.0f} s"
    )
    out.result({"ok": not proofs.failures, **summary(proofs)})
    return FAILED if proofs.failures else OK


def summary(proofs: Proofs) -> dict[str, Any]:
    """As the grader's ingest printed it."""
    failures = [{"task": task, "reason": reason} for task, reason in proofs.failures]
    return {**asdict(proofs), "failures": failures}


def _show_kinds(proofs: Proofs, out: Output) -> None:
    table = Table("mutants", Column("made", justify="right"), Column("caught", justify="right"))
    for kind, counts in proofs.by_kind.items():
        table.add_row(plain(kind), str(counts["mutants"]), str(counts["killed"]))
    if proofs.by_kind:
        out.show(table)


def _prove_apart(
    state: StateDir,
    domains: Path,
    files: list[TaskFiles],
    choice: ProofChoice,
    out: Output,
) -> Proofs:
    only = sorted({found.domain for found in files})
    with (
        server_apart(state, "validate", domains, out, only=only) as server,
        out.console.status("proving") as progress,
    ):

        def on_line(line: str) -> None:
            count, _, told = line.partition(" ")
            progress.update(f"proving {plain(count)}")
            if told.endswith(": proved"):
                out.say(f"[green]✓[/green] {plain(told.removesuffix(': proved'))}")

        return prove(
            server.children,
            server.state,
            domains=server.domains,
            env_server=server.grpc,
            choice=choice,
            on_line=on_line,
        )


def _public(files: TaskFiles) -> dict[str, Any]:
    value = read_yaml(files.public)
    return {
        "id": files.task_id,
        "domain": files.domain,
        "file": str(files.public),
        "opening": str(value.get("opening", "")).strip(),
        "limits": value.get("limits") or {},
        "tags": value.get("tags") or {},
    }


def _show_private(private: dict[str, Any], out: Output) -> None:
    golden = private.get("golden") or {}
    out.say("[b]golden[/b]")
    for action in golden.get("actions") or []:
        out.say(f"         {plain(action.get('tool'))}({plain(_pairs(action.get('arguments')))})")
    out.say(f"         reply: {plain(str(golden.get('reply', '')).strip())}")
    out.say("[b]checks[/b]")
    for check in private.get("checks") or []:
        out.say(f"         {plain(check.get('kind')):<10} {plain(check.get('name'))}")


def _pairs(value: dict[str, Any] | None) -> str:
    return ", ".join(f"{key}: {item}" for key, item in (value or {}).items())
