"""`envfarm tasks baselines` and `play`: a task tried by agents without a mind, and by a person."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Column, Table

from envfarm_cli import loops
from envfarm_cli.authoring.baselines import LIMITS, Share, Tried, shares, try_tasks
from envfarm_cli.authoring.examiner import examiner
from envfarm_cli.authoring.play import Player, play_task
from envfarm_cli.authoring.server_apart import ServerApart, server_apart
from envfarm_cli.commands_stack import (
    DEFAULT_DOMAINS,
    DEFAULT_STATE,
    DomainsOption,
    JsonOption,
    StateDirOption,
)
from envfarm_cli.commands_task_quality import DomainsChoice, SplitOption, chosen_tasks
from envfarm_cli.domain_files import find_task
from envfarm_cli.output import FAILED, OK, Output, plain
from envfarm_cli.state_dir import StateDir
from envfarm_cli.verdict_view import render
from grader.checkset import load_checkset
from grader.judge.stand_in import StandInJudge

EPISODES_AT_ONCE = 8
"""On two cores; more only makes each of them slower."""


def baselines(
    domain: DomainsChoice = None,
    split: SplitOption = "",
    seed: Annotated[int, typer.Option(help="Of the random agent; same seed, same calls.")] = 0,
    jobs: Annotated[
        int, typer.Option(min=1, max=1000, help="Episodes at once; 8 suit two cores.")
    ] = EPISODES_AT_ONCE,
    domains: DomainsOption = DEFAULT_DOMAINS,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Let scripted agents try every task: a pool that rewards one of them is too easy.

    [b]oracle[/b] plays the golden run and must succeed everywhere. [b]lazy[/b] reads what the golden
    run reads, writes nothing and claims success: at most 20 %. [b]hasty[/b] skips approvals, checks
    and hand-overs, makes the first writing call that is left and claims success, and takes the
    first near miss where nothing is left: at most 25 %. [b]random[/b] makes 8 valid calls with
    values of the domain: at most 2 %. Each limit holds in each pool, train and eval, over the
    chosen domains. Rubrics are answered by a stand-in judge.

    Example: [b]envfarm tasks baselines --domain orders[/b]
    """
    out = Output(json)
    ids = [task.task_id for task in chosen_tasks(domains, domain or [], split)]
    only = sorted({name.partition("/")[0] for name in ids})
    with server_apart(StateDir(state_dir), "baselines", domains, out, only=only) as server:
        tried = loops.run(_try(server, ids, seed, jobs, out))
    faults = [task for task in tried if task.fault]
    for task in faults:
        out.say(f"[red]✗[/red] {plain(task.task_id)}: {plain(task.fault)}")
    found = shares(tried)
    out.show(_table(found))
    lost = [task.task_id for task in tried if not task.fault and not task.passed["oracle"]]
    for task_id in lost:
        out.say(f"[red]✗[/red] {plain(task_id)}: the golden run does not pass")
    is_ok = not faults and all(share.ok for share in found)
    out.say(f"{len(ids)} tasks, {len(faults)} without a verdict")
    pools = [{**asdict(share), "share": round(share.share, 4), "ok": share.ok} for share in found]
    passed = {
        agent: [task.task_id for task in tried if task.passed.get(agent)]
        for agent in LIMITS
        if agent != "oracle"
    }
    out.result(
        {
            "ok": is_ok,
            "tasks": len(ids),
            "seed": seed,
            "pools": pools,
            "passed": passed,
            "oracle_fails": lost,
            "faults": [{"task": task.task_id, "reason": task.fault} for task in faults],
        }
    )
    return OK if is_ok else FAILED


def play(
    task: Annotated[str, typer.Argument(help="Task id, such as orders/refund-damaged.")],
    domains: DomainsOption = DEFAULT_DOMAINS,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Be the agent: the same opening, policy, tools and limits; the verdict at the end.

    Write [b]TOOL name=value ...[/b] to call a tool, [b]say TEXT[/b] to answer the person, who is
    played from the task's script and leaves when there is nothing more to say; then the attempt
    is graded. [b]done TEXT[/b] says the last words and ends it. [b]help[/b] lists the rest. Lines
    may come from a pipe. Exit status 0 for reward 1.

    Example: [b]envfarm tasks play orders/refund-damaged[/b]
    """
    out, files = Output(json), find_task(domains, task)
    with (
        server_apart(StateDir(state_dir), "play", domains, out, only=[files.domain]) as server,
        loops.Runner() as runner,
    ):
        ended = play_task(server, files, Player(out), runner)
    verdict = ended.verdict
    if verdict is not None and not json:
        # Nobody can ask for it again: it ends with the command.
        out.show(render(verdict, whole=True))
    reward = verdict.get("reward") if verdict else None
    out.result({"ok": reward == 1.0, "task": task, "reward": reward, **ended.as_json()})
    return OK if reward == 1.0 else FAILED


async def _try(
    server: ServerApart, ids: list[str], seed: int, jobs: int, out: Output
) -> list[Tried]:
    judge = StandInJudge(load_checkset(server.domains))
    done = 0
    with out.console.status("trying") as progress:

        def on_task(_: Tried) -> None:
            nonlocal done
            done += 1
            progress.update(f"trying: {done} of {len(ids)} tasks")

        async with examiner(server, at_once=jobs, judge=judge) as examining:
            return await try_tasks(examining, ids, seed=seed, on_task=on_task)


def _table(found: list[Share]) -> Table:
    table = Table(
        "pool",
        "agent",
        Column("succeeds in", justify="right"),
        Column("limit", justify="right"),
        "",
    )
    for share in found:
        limit = "all" if share.agent == "oracle" else f"≤ {share.limit:.0%}"
        mark = "[green]✓[/green]" if share.ok else "[red]✗[/red]"
        counted = f"{share.passed} of {share.tasks}, {share.share:.1%}"
        table.add_row(plain(share.pool), share.agent, counted, limit, mark)
    return table
