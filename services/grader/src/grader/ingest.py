"""The operator's job before a task is used: make its golden snapshot and prove its checks.

    golden run passes, twice, with equal states · a run without calls fails, or is declared right
    every mutant of the fixed catalogue fails (`proof/mutants.py`), or a person declared it right

The snapshot is written only when everything holds. `python -m grader.ingest --help`.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from envfarm.errors import ConfigError, EnvfarmError
from envfarm.v1 import task_pb2
from envfarm_common import lifecycle, logging, settings
from envfarm_common.grpc import connect

from grader.check_run import make_judge, make_runner
from grader.checkset import CheckFile, Checkset, load_checkset
from grader.evidence_client import EvidenceClient
from grader.fresh_run import FreshRuns
from grader.golden import GoldenStore
from grader.judge.stand_in import StandInJudge
from grader.proof.prover import Prover, TaskProof
from grader.proof.report import Report, combine
from grader.settings import IngestSettings
from grader.world_base import BaseStore

EPISODES_AT_ONCE = 8
"""On two cores; more only makes each of them slower."""


async def prove_tasks(
    checkset: Checkset,
    config: IngestSettings,
    task_ids: Sequence[str],
    progress: Callable[[str], None],
    *,
    at_once: int = EPISODES_AT_ONCE,
    is_whole: bool = False,
    stand_in_judge: bool = False,
) -> Report:
    """Prove the tasks, `at_once` episodes at a time; `is_whole` says that they are whole domains. What
    is wrong with a task is its failure; an env-server or a judge that cannot be reached ends the job
    with GraderError."""
    started = time.monotonic()
    timeout = config.evidence_timeout_seconds
    channel, metadata = connect(
        f"dns:///{config.env_server}", config.infra_token.get_secret_value()
    )
    source = EvidenceClient(config.evidence_token.get_secret_value(), timeout)
    judge = None if stand_in_judge else make_judge(config)
    try:
        runs = FreshRuns(channel, metadata, timeout, at_once)
        bases = BaseStore(config.golden_dir)
        prover = Prover(
            runs,
            source,
            GoldenStore(config.golden_dir),
            bases,
            config.env_server,
            make_runner(checkset, StandInJudge(checkset) if stand_in_judge else judge, bases),
        )
        public = await runs.tasks("")
        files = [checkset.find(task_id) for task_id in task_ids]
        proofs = await _prove_all(prover, public, files, progress, at_once)
    finally:
        await source.close()
        await channel.close()
        if judge:
            await judge.close()
    report = combine(proofs, is_whole=is_whole)
    report.episodes = runs.opened
    report.seconds = round(time.monotonic() - started, 2)
    return report


async def _prove_all(
    prover: Prover,
    public: dict[str, task_pb2.Task],
    files: Sequence[CheckFile],
    progress: Callable[[str], None],
    at_once: int,
) -> list[TaskProof]:
    proofs: list[TaskProof] = []
    waiting = iter(files)

    async def work() -> None:
        for checks in waiting:
            task = public.get(checks.task)
            if task is None:
                proof = TaskProof(checks.task, ["the env-server has no such task"])
            else:
                proof = await prover.prove(task, checks)
            proofs.append(proof)
            outcome = "; ".join(proof.wrong) or "proved"
            progress(f"[{len(proofs)}/{len(files)}] {checks.task}: {outcome}")

    # Two tasks more than fill the room, since a task that is nearly done leaves some of it empty.
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(files))):
                group.create_task(work())
    except* EnvfarmError as failed:
        raise failed.exceptions[0] from None
    return proofs


def _config(arguments: argparse.Namespace) -> IngestSettings:
    given = {
        name: value
        for name in ("domains_dir", "golden_dir", "env_server")
        if (value := getattr(arguments, name)) is not None
    }

    class WithFlags(IngestSettings):
        def __init__(self) -> None:
            super().__init__(**given)

    return settings.load(WithFlags)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m grader.ingest",
        description="Prove tasks on a running env-server and write their golden snapshots.",
        epilog="Tokens come from GRADER_INFRA_TOKEN and GRADER_EVIDENCE_TOKEN. Flags win over "
        "GRADER_DOMAINS_DIR, GRADER_GOLDEN_DIR and GRADER_ENV_SERVER. Exit status: 0 all proved, "
        "1 otherwise.",
    )
    parser.add_argument("--domains", dest="domains_dir", type=Path, help="folder of domains")
    parser.add_argument("--golden-dir", type=Path, help="where snapshots are written")
    parser.add_argument("--env-server", help="host:port of an env-server's gRPC door")
    parser.add_argument("--domain", default="", help="only tasks of this domain")
    parser.add_argument("--task", action="append", help="only this task id; may be repeated")
    parser.add_argument(
        "--jobs", type=_positive, default=EPISODES_AT_ONCE, help="episodes at once (%(default)s)"
    )
    parser.add_argument(
        "--stand-in-judge",
        action="store_true",
        help="answer rubrics without a model: as expected for golden replies, else the opposite",
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    return parser.parse_args(argv)


def _positive(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1000:
        raise ValueError(text)
    return value


async def _run(arguments: argparse.Namespace) -> Report:
    config = _config(arguments)
    logging.configure("grader-ingest", config.log_level)
    checkset = load_checkset(config.domains_dir)
    task_ids = arguments.task or checkset.task_ids(arguments.domain)
    if not task_ids:
        raise ConfigError(f"there is no task of domain {arguments.domain!r}")
    for task_id in task_ids:
        checkset.find(task_id)
    return await prove_tasks(
        checkset,
        config,
        task_ids,
        lambda line: print(line, file=sys.stderr, flush=True),
        at_once=arguments.jobs,
        is_whole=not arguments.task,
        stand_in_judge=arguments.stand_in_judge,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 when every task is proved."""
    arguments = _parse(argv)
    reports: list[Report] = []

    async def job() -> None:
        reports.append(await _run(arguments))

    status = lifecycle.run(job)
    if not reports:
        return status or 1
    (report,) = reports
    shown: dict[str, Any] = asdict(report)
    if arguments.json:
        print(json.dumps(shown))
    else:
        print(
            f"{report.passed} of {report.tasks} tasks proved, {report.mutants_killed} of"
            f" {report.mutants} mutants caught, {report.equivalent_declared} declared equivalent"
        )
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
