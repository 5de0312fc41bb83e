"""`envfarm bench select`: selecting from 800,000 rows, aggregating an evaluation, probing frugally."""

import os
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from hashlib import file_digest, sha256
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer
from envfarm.attempt_row import AttemptRow

from envfarm_cli.commands_stack import JsonOption
from envfarm_cli.output import OK, Output
from envfarm_numbers.counts import read_counts
from envfarm_numbers.estimators import results
from envfarm_numbers.probe_efficiency import efficiency, pools
from envfarm_numbers.probing import StoppingRule
from envfarm_numbers.selection import Settings, select
from envfarm_numbers.selection_files import read_inputs, texts

SUITE_TASKS, SUITE_REPETITIONS = 507, 20
LIMITS = {
    "select_seconds": 5.0,
    "select_peak_mb": 2000.0,
    "probe_fraction_of_fixed_k": 0.6,
    "aggregate_seconds": 1.0,
}


def select_(
    tasks: Annotated[int, typer.Option(min=10, help="Probed tasks to select from.")] = 20_000,
    runs: Annotated[int, typer.Option(min=4, help="Rows of each task.")] = 40,
    scratch: Annotated[
        Path | None, typer.Option(help="Folder with room for the rows, 1.1 GB as it stands.")
    ] = None,
    json: JsonOption = False,
) -> int:
    """Time a selection and an aggregation, and compare sequential with fixed probing exactly.

    The floor reads and hashes the same file and nothing else. Probing: the default rule's mean runs
    over those of the shortest fixed probe that is wrong no more often; the worst of three pools.

    Example: [b]envfarm bench select --json[/b]
    """
    out = Output(json)
    with TemporaryDirectory(dir=scratch, prefix="envfarm-bench-") as folder:
        probe, suite = Path(folder) / "probe.jsonl", Path(folder) / "suite.jsonl"
        with out.console.status("writing rows"):
            _write(probe, tasks, runs)
            _write(suite, SUITE_TASKS, SUITE_REPETITIONS)
        with out.console.status("selecting"):
            # A process of its own, so that its peak is its own.
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                seconds, cpu, peak = pool.submit(_select_once, probe).result()
            floor = _floor(probe)
        with out.console.status("aggregating"):
            aggregate = _aggregate(suite)
    with out.console.status("probing on paper"):
        probing = {pool.name: efficiency(StoppingRule(), pool) for pool in pools()}
    figures: dict[str, Any] = {
        "select_seconds": round(seconds, 3),
        "select_peak_mb": round(peak, 1),
        "probe_fraction_of_fixed_k": round(max(e.fraction for e in probing.values()), 4),
        "aggregate_seconds": round(aggregate, 3),
        "select_cpu_seconds": round(cpu, 3),
        "limits": LIMITS,
        "floor": {"read_and_hash_seconds": round(floor, 3)},
        "rows": tasks * runs,
        "probing": {
            name: {
                "runs": round(found.runs, 3),
                "wrong_band": round(found.wrong_band, 5),
                "fixed_k": found.fixed_k,
                "fixed_wrong_band": round(found.fixed_wrong_band, 5),
                "fraction": round(found.fraction, 4),
            }
            for name, found in probing.items()
        },
    }
    for name, limit in LIMITS.items():
        kept = "" if figures[name] <= limit else "   [red]above[/red]"
        out.say(f"{name:<28}{figures[name]:>10}   limit {limit:g}{kept}")
    out.say(f"{'floor: read and hash':<28}{figures['floor']['read_and_hash_seconds']:>10}")
    out.result({"ok": True, **figures})
    return OK


def _select_once(path: Path) -> tuple[float, float, float]:
    """(seconds, CPU seconds, peak resident MB) of reading, selecting and making the four files; with
    the processes that read."""
    started = time.perf_counter()
    inputs = read_inputs([path], [], [])
    texts(select(inputs.policy, {}, Settings()), inputs)
    seconds = time.perf_counter() - started
    here, readers = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu = sum(one.ru_utime + one.ru_stime for one in (here, readers))
    # As if all were at their peak at once, and each as large as the largest.
    peak = here.ru_maxrss + (len(os.sched_getaffinity(0)) - 1) * readers.ru_maxrss
    return seconds, cpu, peak / 1024


def _aggregate(path: Path) -> float:
    started = time.perf_counter()
    results(list(read_counts(path).tasks.values()))
    return time.perf_counter() - started


def _floor(path: Path) -> float:
    started = time.perf_counter()
    with path.open("rb") as source:
        file_digest(source, "sha256")
    return time.perf_counter() - started


def _write(path: Path, tasks: int, runs: int) -> None:
    """Rows as a gateway writes them; pass rates are U-shaped."""
    random = np.random.default_rng(1)
    with path.open("w") as file:
        for number, rate in enumerate(random.beta(0.5, 0.5, tasks)):
            task = f"bench/task-{number:06}"
            lines = [_row(task, float(reward)).to_json() for reward in (0, 1)]
            heads = [line.partition('"repetition": 0,') for line in lines]
            for repetition, passed in enumerate(random.random(runs) < rate):
                before, _, after = heads[int(passed)]
                file.write(f'{before}"repetition": {repetition},{after}\n')
        file.flush()
        os.fsync(file.fileno())


def _row(task: str, reward: float) -> AttemptRow:
    def digest(text: str) -> str:
        return sha256(text.encode()).hexdigest()

    return AttemptRow(
        task_id=task,
        task_hash=digest(task),
        world_hash=digest("world"),
        tags={"domain": "bench", "workflow": "refund", "failure_mode": "amount", "split": "train"},
        repetition=0,
        attempt=1,
        rollout_id=f"probe.{task}.s0.a1",
        episode_id="ep-AAAAAAAAAAAAAAAAAAAAAA",
        status="completed",
        reward=reward,
        interface="tokens",
        policy_run="bench",
        policy_numbers=[0],
        policy_hash=digest("policy"),
        renderer_hash=digest("renderer"),
        sampling_hash=digest("sampling"),
        checks_hash=digest(f"checks {task}"),
        initial_state_hash=digest("initial"),
        final_state_hash=digest(f"final {reward}"),
        prompt_tokens=2600,
        sampled_tokens=310,
        user_tokens=0,
        judge_tokens=0,
        turns=5,
        tool_calls=4,
        tool_errors=0,
        seconds=4.25,
        tool_seconds=0.125,
        checks=[
            {"name": "final state", "kind": "state", "passed": reward == 1.0},
            {"name": "names order and amount", "kind": "reply", "passed": True},
        ],
        writes={"refunds": {"insert": 1}, "orders": {"update": 1}},
        error_class="",
        boundary="",
        message="",
    )
