"""`envfarm export thinkingbox`: an evaluation in the row format of the harness that its tasks come from."""

import json as json_text
from pathlib import Path
from typing import Annotated

import typer
from envfarm.errors import ConfigError

from envfarm_cli.campaign.files import write_durably
from envfarm_cli.commands_stack import JsonOption
from envfarm_cli.output import EXIT_CODES, OK, Output, plain
from envfarm_cli.thinkingbox.result_rows import read_index, result_rows
from envfarm_numbers.benchmarks import BENCH, BENCH_REPETITIONS, Benchmarks, size_of
from envfarm_numbers.rows import read_campaign
from envfarm_numbers.suite import Suite
from envfarm_numbers.task_facts import TaskFacts

app = typer.Typer(
    no_args_is_help=True,
    help="Write results as other programs read them.",
    rich_markup_mode="rich",
    epilog=EXIT_CODES,
)


@app.callback()
def _group() -> None:
    """Write results as other programs read them."""


@app.command(epilog=EXIT_CODES)
def thinkingbox(
    run: Annotated[Path, typer.Argument(help="Folder of an evaluation, such as runs/NAME.")],
    worlds: Annotated[Path, typer.Option(help="Folder that `envfarm import … --worlds` wrote.")],
    out_file: Annotated[Path, typer.Option("--out", help="JSONL file to write.")],
    k: Annotated[int, typer.Option("-k", min=1, max=1024, help="Repetitions of each task.")] = (
        BENCH_REPETITIONS
    ),
    part: Annotated[
        bool,
        typer.Option(
            "--part", help="Write rows of a part of the benchmark, or of another number of runs."
        ),
    ] = False,
    json: JsonOption = False,
) -> int:
    """Write an evaluation of imported tasks as rows that `tb agg` reads.

    Nothing is written before each planned (task, repetition) has exactly one reward and nothing else
    is there. For ThinkingBox-Bench that means 507 tasks × 20 runs, 10,140 rows; anything less is
    refused unless you say --part, because its figures are none of the benchmark's.

    An attempt that failed by our doing was run again and is no row, so there are no system errors in
    the file; how many there were: `envfarm attempts audit`.

    Example: [b]envfarm export thinkingbox runs/bench --worlds worlds --out rows.jsonl[/b]
    """
    out = Output(json)
    suite = Suite.read(run / "suite.json")
    found = result_rows(read_campaign(run), suite, k, read_index(worlds))
    known = Benchmarks.known()
    of_bench = sum(
        known.of(TaskFacts(task_id=task, task_hash=value)) == BENCH
        for task, value in suite.tasks.items()
    )
    whole = size_of(BENCH)
    is_whole = (of_bench, len(suite.tasks), k) == (whole, whole, BENCH_REPETITIONS)
    if of_bench and not is_whole and not part:
        raise ConfigError(
            f"{run}: {of_bench} of {whole} tasks of {BENCH}, {k} runs each, {len(found)} rows of "
            f"{whole * BENCH_REPETITIONS}: no result of the benchmark",
            hint="run `envfarm eval --suite thinkingbox-bench -k 20`, or say --part",
        )
    lines = [json_text.dumps(row, ensure_ascii=False, sort_keys=True) for row in found]
    write_durably(out_file, ("\n".join(lines) + "\n").encode())
    out.say(f"{len(found)} rows of {len(suite.tasks)} tasks in {plain(out_file)}")
    out.result(
        {
            "ok": True,
            "rows": len(found),
            "tasks": len(suite.tasks),
            "repetitions": k,
            "benchmark": BENCH if is_whole else None,
            "file": str(out_file),
        }
    )
    return OK
