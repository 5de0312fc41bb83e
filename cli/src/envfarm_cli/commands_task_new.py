"""`envfarm tasks new` and `schema`: files to begin with, and what editors check them with."""

from pathlib import Path
from typing import Annotated

import typer

from env_server.world import load_world
from envfarm_cli.authoring import new_files
from envfarm_cli.authoring.schemas import PARTS, schema, schema_text, stale_schemas
from envfarm_cli.commands_stack import DEFAULT_DOMAINS, DomainsOption, JsonOption
from envfarm_cli.domain_files import find_task
from envfarm_cli.failure import BadInput
from envfarm_cli.output import FAILED, OK, Output, plain


def new(
    task: Annotated[str, typer.Argument(help="Id of the new task, such as desk/extend-in-time.")],
    like: Annotated[
        str, typer.Option(help="Copy this task of the same domain instead of leaving gaps.")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say which files would be written, and write none.")
    ] = False,
    domains: DomainsOption = DEFAULT_DOMAINS,
    json: JsonOption = False,
) -> int:
    """Write the files of a new task, and of a new domain where there is none of that name.

    A new domain is a small one that works: tables, rows, policy, four tools and one task that is
    proved as it stands. Change it step by step and keep it proved. In a domain that is there, a
    new task has gaps marked FILL IN, and its private file lists the tools; `tasks lint` finds gaps
    that are left. The first line of each file names its JSON Schema in DOMAINS/.schemas for editors
    that know yaml-language-server. No file is ever overwritten.

    Example: [b]envfarm tasks new desk/extend-in-time[/b]
    """
    out = Output(json)
    domain, _ = new_files.split_id(task)
    files = _files(domains, domain, task, like)
    taken = [path for path in files if path.exists()]
    if taken:
        raise BadInput(f"{taken[0]} is there already", hint="choose another id")
    schemas = stale_schemas(domains)
    if not dry_run:
        for path, text in {**files, **schemas}.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    said = "would be written" if dry_run else "written"
    for path in files:
        out.say(f"[green]+[/green] {plain(path)}")
    if schemas:
        out.say(f"[green]+[/green] {plain(next(iter(schemas)).parent)}/ for editors")
    where = "" if domains == DEFAULT_DOMAINS else f" --domains {domains}"
    out.say(
        f"{len(files)} files {said}; next: `envfarm tasks lint --domain {domain}{plain(where)}`, then"
        f" `envfarm tasks validate --task {plain(task)}{plain(where)}`"
    )
    written = [str(path) for path in [*files, *schemas]]
    out.result({"ok": True, "task": task, "files": written, "dry_run": dry_run})
    return OK


def schema_(
    part: Annotated[
        str, typer.Argument(help=f"One of {', '.join(PARTS)}; without it all are written.")
    ] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Fail when a file is missing or old; write nothing.")
    ] = False,
    domains: DomainsOption = DEFAULT_DOMAINS,
    json: JsonOption = False,
) -> int:
    """Print the JSON Schema of one part, or write those of all parts into DOMAINS/.schemas.

    world is world/world.yaml, task a file of world/tasks/, user and private one of the folders of
    these names.

    Example: [b]envfarm tasks schema private[/b]
    """
    out = Output(json)
    if part:
        if part not in PARTS:
            raise BadInput(f"there is no part {part!r}", hint=f"parts are: {', '.join(PARTS)}")
        if not json:
            typer.echo(schema_text(part), nl=False)
        out.result({"ok": True, "part": part, "schema": schema(part)})
        return OK
    if not domains.is_dir():
        raise BadInput(f"there is no folder of domains at {domains}", hint="give --domains")
    stale = stale_schemas(domains)
    for path, text in stale.items() if not check else ():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path in stale:
        out.say(f"{'[red]✗[/red] old:' if check else '[green]+[/green]'} {plain(path)}")
    out.say(f"{len(PARTS) - len(stale)} of {len(PARTS)} were up to date")
    is_ok = not (check and stale)
    out.result({"ok": is_ok, "stale": [str(path) for path in stale], "written": not check})
    return OK if is_ok else FAILED


def _files(domains: Path, domain: str, task: str, like: str) -> dict[Path, str]:
    if like:
        return new_files.copied_task(domains, task, find_task(domains, like))
    if (domains / domain / "world" / "world.yaml").exists():
        tools = load_world(domains / domain / "world").offered
        return new_files.next_task(domains, task, tools)
    return new_files.first_domain(domains, task)
