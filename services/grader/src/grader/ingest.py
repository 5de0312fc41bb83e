"""The operator's job before a task is used: make its golden snapshot and prove its checks.

    golden run passes, twice, with equal states · a run without calls fails, or is declared right
    every mutant fails: a golden WRITE call left out, one write too many, the declared near misses

The snapshot is written only when everything holds. `python -m grader.ingest --help`.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from envfarm.errors import ConfigError, EvidenceError
from envfarm.v1 import task_pb2
from envfarm_common import lifecycle, logging, settings
from envfarm_common.grpc import connect

from grader.check_run import CheckRunner, make_judge, make_runner
from grader.checkset import Action, CheckFile, Checkset, load_checkset
from grader.evidence import Evidence
from grader.evidence_client import EpisodeState, EvidenceClient
from grader.fresh_run import FreshRuns
from grader.golden import Golden, GoldenStore, make_golden
from grader.grading import Attempt, Graded, grade
from grader.settings import IngestSettings
from grader.world_base import BaseStore


@dataclass
class Report:
    """`failures` holds {"task", "reason"}; everything is proved when it is empty."""

    tasks: int = 0
    passed: int = 0
    mutants: int = 0
    mutants_killed: int = 0
    failures: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Mutant:
    name: str
    actions: Sequence[Action]
    reply: str
    must_run: bool
    """Whether each of its calls must be accepted, or it would prove nothing."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A golden source with one snapshot that is not written yet."""

    golden: Golden

    def load(self, task_id: str, task_hash: str, checks_hash: str) -> Golden:
        return self.golden


class Prover:
    """Proves single tasks on one env-server."""

    def __init__(
        self,
        runs: FreshRuns,
        source: EvidenceClient,
        store: GoldenStore,
        bases: BaseStore,
        env_server: str,
        runner: CheckRunner,
    ):
        self._runs = runs
        self._source = source
        self._store = store
        self._bases = bases
        self._target = f"dns:///{env_server}"
        self._runner = runner

    async def prove(self, task: task_pb2.Task, checks: CheckFile, report: Report) -> list[str]:
        """What is wrong with the task; when nothing is, its snapshot has been written."""
        wrong: list[str] = []
        async with self._runs.sealed(task, []) as (empty_id, _):
            untouched = await self._source.read(self._target, empty_id)
            is_known = self._bases.has(untouched.initial_state_hash)
            base = None if is_known else await self._source.read_world(self._target, empty_id)
            async with self._runs.sealed(task, checks.golden.actions) as (golden_id, refusals):
                if refusals:
                    return [f"a golden call was refused: {refusals[0]}"]
                finished = await self._source.read(self._target, golden_id)
            golden = make_golden(checks.checks_hash, untouched, finished)
            empty = await self._grade(task, checks, golden, empty_id, "")
        if empty.decision.status != "graded":
            wrong.append(f"the empty run is ungradable: {empty.decision.reason}")
        elif (empty.decision.reward == 1.0) != (checks.empty == "passes"):
            wrong.append(f"the empty run does not do what `empty: {checks.empty}` says")
        wrong += await self._prove_golden(task, checks, golden)
        for mutant in _mutants(task, checks):
            report.mutants += 1
            fault = await self._survives(task, checks, golden, mutant)
            if fault:
                wrong.append(fault)
            else:
                report.mutants_killed += 1
        if not wrong:
            if base:
                self._bases.write(base)
            self._store.write(golden)
        return wrong

    async def _prove_golden(
        self, task: task_pb2.Task, checks: CheckFile, golden: Golden
    ) -> list[str]:
        async with self._runs.sealed(task, checks.golden.actions) as (episode_id, _):
            again = await self._grade(task, checks, golden, episode_id, checks.golden.reply)
        if again.decision.reward != 1.0:
            return [f"the golden run does not pass: {_why(again)}"]
        evidence: Evidence | None = again.evidence
        if evidence is None or evidence.final_state_hash != golden.final_state_hash:
            return ["two golden runs end in different states"]
        return []

    async def _survives(
        self, task: task_pb2.Task, checks: CheckFile, golden: Golden, mutant: _Mutant
    ) -> str:
        """Empty when the checks catch the mutant, else what is wrong."""
        async with self._runs.sealed(task, mutant.actions) as (episode_id, refusals):
            if mutant.must_run and refusals:
                return f"the mutant {mutant.name!r} cannot be run: {refusals[0]}"
            graded = await self._grade(task, checks, golden, episode_id, mutant.reply)
        if graded.decision.reward != 0.0:
            return f"the mutant {mutant.name!r} is not caught: {_why(graded)}"
        return ""

    async def _grade(
        self, task: task_pb2.Task, checks: CheckFile, golden: Golden, episode_id: str, reply: str
    ) -> Graded:
        attempt = Attempt(
            task_id=task.ref.task_id,
            task_hash=task.ref.task_hash,
            final_reply=reply,
        )
        state = EpisodeState(self._source, self._target, episode_id)
        return await grade(attempt, checks, _Held(golden), state, self._runner)


def _mutants(task: task_pb2.Task, checks: CheckFile) -> list[_Mutant]:
    golden = checks.golden
    writes = {tool.name for tool in task.tools if tool.access == task_pb2.TOOL_ACCESS_WRITE}
    mutants = [
        _Mutant(
            f"without call {index + 1}, {action.tool}",
            [*golden.actions[:index], *golden.actions[index + 1 :]],
            golden.reply,
            must_run=False,
        )
        for index, action in enumerate(golden.actions)
        if action.tool in writes
    ]
    extra = [*golden.actions, checks.extra_write]
    mutants.append(_Mutant(f"one more {checks.extra_write.tool}", extra, golden.reply, True))
    for miss in checks.near_misses:
        reply = golden.reply if miss.reply is None else miss.reply
        mutants.append(_Mutant(miss.name, miss.actions, reply, True))
    return mutants


def _why(graded: Graded) -> str:
    failed = [f"{r.name}: {r.observed}" for r in graded.results if not r.passed]
    return graded.decision.reason or "; ".join(failed) or "every check passed"


async def prove_tasks(
    checkset: Checkset,
    config: IngestSettings,
    task_ids: Sequence[str],
    progress: Callable[[str], None],
) -> Report:
    """Prove the tasks one by one. EvidenceError, like any wrong, is the task's failure; an
    env-server that cannot be reached ends the job with GraderError."""
    report = Report(tasks=len(task_ids))
    timeout = config.evidence_timeout_seconds
    channel, metadata = connect(
        f"dns:///{config.env_server}", config.infra_token.get_secret_value()
    )
    source = EvidenceClient(config.evidence_token.get_secret_value(), timeout)
    try:
        runs = FreshRuns(channel, metadata, timeout)
        prover = Prover(
            runs,
            source,
            GoldenStore(config.golden_dir),
            BaseStore(config.golden_dir),
            config.env_server,
            make_runner(checkset, make_judge(config)),
        )
        public = await runs.tasks("")
        for number, task_id in enumerate(task_ids, 1):
            wrong = await _prove_one(prover, public, checkset.find(task_id), report)
            report.passed += not wrong
            report.failures += [{"task": task_id, "reason": reason} for reason in wrong]
            outcome = "; ".join(wrong) if wrong else "proved"
            progress(f"[{number}/{len(task_ids)}] {task_id}: {outcome}")
    finally:
        await source.close()
        await channel.close()
    return report


async def _prove_one(
    prover: Prover, public: dict[str, task_pb2.Task], checks: CheckFile, report: Report
) -> list[str]:
    if checks.task not in public:
        return ["the env-server has no such task"]
    try:
        return await prover.prove(public[checks.task], checks, report)
    except EvidenceError as error:
        return [error.message]


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
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")
    return parser.parse_args(argv)


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
        checkset, config, task_ids, lambda line: print(line, file=sys.stderr, flush=True)
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
            f"{report.passed} of {report.tasks} tasks proved, {report.mutants_killed} of {report.mutants} mutants caught"
        )
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
