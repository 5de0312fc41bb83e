"""`envfarm parity`: recorded trajectories, rendered and read again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from envfarm.record_frames import FILE, read_rollouts

from envfarm_cli.commands_stack import JsonOption
from envfarm_cli.failure import BadInput
from envfarm_cli.output import FAILED, OK, Output, plain
from rollout_gateway.chat.render import Renderer
from rollout_gateway.job_context import read_context
from rollout_gateway.parity import Difference, differences

SHOWN = 20


def parity(
    runs: Annotated[
        Path, typer.Option(help="Folder of recorded jobs, or one above: a run, a gateway's state.")
    ],
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="Folder of the tokenizer; else the one that each job was made with."),
    ] = None,
    json: JsonOption = False,
) -> int:
    """Render and read stored trajectories again, as an evaluation would, and require no difference.

    Every given token must come out as the same id, every sampled turn must read as the same calls,
    arguments, text and reasoning. A difference means that figures made before and after are not
    comparable: another tokenizer, another chat format, or a change of renderer or parser.

    Example: [b]envfarm parity --runs runs/demo[/b]
    """
    out = Output(json)
    jobs = recorded_jobs(runs)
    if not jobs:
        raise BadInput(
            f"--runs: there are no recorded jobs in {runs}",
            hint="name the state folder of a gateway, or a run that was recorded",
        )
    renderers: dict[tuple[str, str, str], Renderer] = {}
    attempts, found = 0, list[Difference]()
    for folder in jobs:
        for differs in job_differences(folder, tokenizer, renderers):
            attempts += 1
            found += differs
    for difference in found[:SHOWN]:
        where = f"{difference.rollout_id}, turn {difference.turn}"
        out.say(f"[red]✗[/red] {plain(where)}: {plain(difference.what)}")
    if len(found) > SHOWN:
        out.say(f"  and {len(found) - SHOWN} more")
    mark = "[red]✗[/red]" if found else "[green]✓[/green]"
    out.say(
        f"{mark} {attempts} trajectories of {len(jobs)} jobs rendered and read again, "
        f"{len(found)} differences"
    )
    out.result(
        {
            "ok": not found,
            "jobs": len(jobs),
            "trajectories": attempts,
            "differences": [
                {"rollout_id": d.rollout_id, "turn": d.turn, "what": d.what} for d in found
            ],
        }
    )
    return FAILED if found else OK


def recorded_jobs(runs: Path) -> list[Path]:
    """Folders of jobs that lie in `runs` or below."""
    return sorted(path.parent for path in runs.rglob(FILE)) if runs.is_dir() else []


def job_differences(
    folder: Path, tokenizer: Path | None, renderers: dict[tuple[str, str, str], Renderer]
) -> Iterator[list[Difference]]:
    """The differences of each recorded trajectory of one job; none where parity holds."""
    rendering, tasks = read_context(folder)
    place = str(tokenizer or rendering.tokenizer_dir)
    key = (place, rendering.chat_format, rendering.reasoning)
    if key not in renderers:
        renderers[key] = rendering.renderer(Path(place))
    for rollout in read_rollouts(folder / FILE):
        task = tasks.get(rollout.trajectory.task.task_id)
        if task is None or task.ref != rollout.trajectory.task:
            what = f"{rollout.trajectory.task.task_id} is not among the job's tasks"
            yield [Difference(rollout.rollout_id, 0, what)]
        else:
            yield differences(rollout, task, renderers[key])
