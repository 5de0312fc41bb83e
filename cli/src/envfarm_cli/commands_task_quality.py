"""`envfarm tasks lint`, `stats` and `similar`: the quality of tasks, from their files alone."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from envfarm_cli.authoring.domain_facts import facts_of
from envfarm_cli.authoring.lint import lint
from envfarm_cli.authoring.task_shares import shares
from envfarm_cli.authoring.task_text import (
    TaskText,
    frequent_skeletons,
    read_task,
    similar_pairs,
)
from envfarm_cli.commands_stack import DEFAULT_DOMAINS, DomainsOption, JsonOption
from envfarm_cli.domain_files import find_tasks
from envfarm_cli.failure import BadInput
from envfarm_cli.output import FAILED, OK, Output, plain

DomainsChoice = Annotated[
    list[str] | None,
    typer.Option("--domain", help="Only tasks of this domain. Repeatable; all unless given."),
]
MOST_ALIKE = 8
"""Tasks with one call skeleton; more train one sequence instead of judgement."""
SplitOption = Annotated[
    str, typer.Option("--split", help="Only tasks of this split, such as train.")
]


def lint_(
    domain: DomainsChoice = None,
    split: SplitOption = "",
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail, too.")] = False,
    domains: DomainsOption = DEFAULT_DOMAINS,
    json: JsonOption = False,
) -> int:
    """Look for mistakes that show in a task's files, before anything runs.

    Goals that are ambiguous (a free text compared word for word, one opening with two right ends),
    golden ends that cannot be reached (a tool or an argument that is not there, an id that nobody
    names, limits that are too low, a reply that fails its own check), checks that no run can fail,
    answers that stand in the opening or in the user's context, gaps that are left, tasks without
    near misses. Exit status 1 when there is an error; warnings only with --strict. That the
    checks really tell right from wrong is proved by `envfarm tasks validate`.

    Example: [b]envfarm tasks lint --domain orders[/b]
    """
    out, tasks = Output(json), chosen_tasks(domains, domain or [], split)
    found = lint(tasks, facts_of(domains, (task.domain for task in tasks)))
    for finding in found:
        mark = "[red]✗[/red]" if finding.level == "error" else "[yellow]![/yellow]"
        out.say(f"{mark} {plain(finding.task)}: {plain(finding.message)} [dim]{finding.code}[/dim]")
    errors = sum(finding.level == "error" for finding in found)
    out.say(f"{len(tasks)} tasks, {errors} errors, {len(found) - errors} warnings")
    failed = bool(errors or (strict and found))
    findings = [asdict(finding) for finding in found]
    out.result({"ok": not failed, "tasks": len(tasks), "findings": findings})
    return FAILED if failed else OK


def stats(
    domain: DomainsChoice = None,
    split: SplitOption = "",
    top: Annotated[int, typer.Option(min=1, help="Rows of each table.")] = 20,
    domains: DomainsOption = DEFAULT_DOMAINS,
    json: JsonOption = False,
) -> int:
    """Show how tasks are spread: workflows, failure modes, call skeletons, kinds of checks.

    A skeleton is the sequence of tools of the golden run. A tool writes when the world declares it
    WRITE.

    Example: [b]envfarm tasks stats --domain orders[/b]
    """
    out, tasks = Output(json), chosen_tasks(domains, domain or [], split)
    counted = shares(tasks, facts_of(domains, (task.domain for task in tasks)))
    for title, counts in (
        ("workflow", counted.workflows),
        ("failure mode", counted.failure_modes),
        ("split", counted.splits),
        ("call skeleton", counted.skeletons),
        ("kind of check", counted.check_kinds),
    ):
        total = sum(counts.values())
        table = Table(title, Column("count", justify="right"), Column("share", justify="right"))
        for name, count in list(counts.items())[:top]:
            table.add_row(plain(name), str(count), f"{count / total:.1%}")
        out.show(table)
        if len(counts) > top:
            out.say(f"… {len(counts) - top} more; --top shows more rows")
    out.say(
        f"{counted.tasks} tasks, {counted.near_misses} near misses; {counted.changes_nothing} change"
        f" nothing, {counted.one_write} write once"
    )
    out.result({"ok": True, **asdict(counted)})
    return OK


def similar(
    domain: DomainsChoice = None,
    split: SplitOption = "",
    least: Annotated[
        float, typer.Option(min=0, max=1, help="Least Jaccard index of a pair that is shown.")
    ] = 0.6,
    most: Annotated[
        int, typer.Option(min=1, help="Most tasks of a domain with one call skeleton.")
    ] = MOST_ALIKE,
    domains: DomainsOption = DEFAULT_DOMAINS,
    json: JsonOption = False,
) -> int:
    """List openings that are too much alike once names, numbers and dates are masked, and golden runs.

    The Jaccard index is the number of words in both openings by the number of words in either. A
    call skeleton is the sequence of tools of a golden run. Exit status 1 when there is a pair, or
    a skeleton that occurs too often.

    Example: [b]envfarm tasks similar --domain orders --least 0.5[/b]
    """
    out, tasks = Output(json), chosen_tasks(domains, domain or [], split)
    pairs = similar_pairs(tasks, least)
    table = Table(Column("Jaccard", justify="right"), "opening", "and")
    for value, one, other in pairs:
        table.add_row(f"{value:.2f}", plain(one), plain(other))
    if pairs:
        out.show(table)
    skeletons = frequent_skeletons(tasks, most)
    for name, skeleton, count in skeletons:
        out.say(
            f"[red]✗[/red] {plain(name)}: {count} golden runs are {plain(' > '.join(skeleton))}"
        )
    out.say(
        f"{len(tasks)} openings, {len(pairs)} pairs with a Jaccard index of {least:g} or more;"
        f" {len(skeletons)} call skeletons more than {most} times"
    )
    named = [{"jaccard": round(value, 4), "tasks": [one, other]} for value, one, other in pairs]
    alike = [
        {"domain": name, "skeleton": list(skeleton), "tasks": count}
        for name, skeleton, count in skeletons
    ]
    failed = bool(pairs or skeletons)
    out.result({"ok": not failed, "tasks": len(tasks), "pairs": named, "skeletons": alike})
    return FAILED if failed else OK


def chosen_tasks(domains: Path, names: Sequence[str], split: str) -> list[TaskText]:
    """Tasks of the named domains, or of all, in id order; BadInput when there is none."""
    files = [found for name in names or [""] for found in find_tasks(domains, name)]
    tasks = [read_task(found) for found in dict.fromkeys(files)]
    chosen = [task for task in tasks if not split or task.tag("split") == split]
    if not chosen:
        known = ", ".join(sorted({task.tag("split") for task in tasks})) or "none"
        raise BadInput("no task is chosen", hint=f"splits here are: {known}")
    return chosen
