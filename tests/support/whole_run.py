"""A whole run on real parts, with its processes killed and started again while it goes on.

Used by the end-to-end test (one kill of each kind) and by the proof (many rounds at random).
"""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from envfarm import streams
from envfarm.v1 import gateway_service_pb2

from envfarm_cli import records
from envfarm_cli.gateway_client import GatewayClient
from envfarm_cli.service_specs import StackOptions, free_port
from envfarm_cli.stack import Stack
from envfarm_cli.state_dir import StateDir
from tests.support.domains import orders_alone
from tests.support.polling import wait_until

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "learner/configs/tiny-cpu.toml"
TASKS = (
    "orders/refund-damaged",
    "orders/cancel-placed",
    "orders/address-change",
    "orders/refund-approval",
)
GROUP_SIZE = 8
FIXED = (
    "env-server.http",
    "env-server.grpc",
    "gateway.http",
    "gateway.grpc",
    "grader.http",
    "grader.grpc",
)


@dataclass
class Ids:
    """Group ids as each side wrote them down."""

    published: Counter[str] = field(default_factory=Counter)
    """By the gateway's own record."""
    on_redis: Counter[str] = field(default_factory=Counter)
    consumed: Counter[str] = field(default_factory=Counter)
    """By the learner's ledger, one line per end of a group."""
    trained: Counter[str] = field(default_factory=Counter)
    trained_on_redis: Counter[str] = field(default_factory=Counter)
    left_on_stream: int = 0


class WholeRun:
    """`with WholeRun(folder, updates=4) as run`: everything is up and version 0 is in service."""

    def __init__(self, folder: Path, *, updates: int, run_id: str = "whole"):
        self.folder, self.updates, self.run_id = folder, updates, run_id
        self.jobs: list[str] = []
        self.state = StateDir(folder / "state")
        self.options = StackOptions(
            domains=orders_alone(folder / "domains", TASKS),
            engine="scripted-vllm",
            gateway_state=folder / "gateway",
            ports={name: free_port() for name in FIXED},
        )
        self.lines: list[str] = []
        self.kills: Counter[str] = Counter()
        self.stack = Stack(self.state, self.options, self.lines.append)

    def __enter__(self) -> "WholeRun":
        # Postgres may run under another account, which must be able to pass through.
        for path in (self.folder, *self.folder.parents):
            if path.stat().st_uid == os.getuid() and path != Path("/"):
                path.chmod(path.stat().st_mode | 0o011)
        self.state.make()
        try:
            self.stack.start()
            self._start_learner()
            with self._gateway() as gateway:
                gateway.wait_for_version(self.run_id, 0, 300, self.stack.fail_when_one_died)
        except BaseException:
            self.stack.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.stop()

    def submit(self) -> None:
        """One more wave of groups, one per task."""
        request = gateway_service_pb2.SubmitJobRequest(
            job_id=f"{self.run_id}-{len(self.jobs)}",
            run_id=self.run_id,
            task_ids=TASKS,
            groups_per_task=1,
            group_size=GROUP_SIZE,
            publish=True,
        )
        with self._gateway() as gateway:
            gateway.submit(request)
        self.jobs.append(request.job_id)

    def submit_when_trained(self) -> None:
        """The next wave, if there is one and every group before it was trained."""
        owed = len(self.jobs) * len(TASKS)
        if owed < self.updates and len(self.steps()) >= owed:
            self.submit()

    def job(self) -> gateway_service_pb2.JobStatus:
        """The last wave."""
        with self._gateway() as gateway:
            return next(job for job in gateway.status().jobs if job.job_id == self.jobs[-1])

    def kill(self, name: str) -> None:
        """Kill -9 one process and start it again where it was."""
        child = self.stack.find(name)
        assert child is not None
        if child.exit_status is not None:
            return
        os.kill(child.process.pid, signal.SIGKILL)
        child.process.wait()
        self.stack.children.forget(child)
        self.kills[name] += 1
        restart: dict[str, Callable[[], object]] = {
            "env-server": self.stack.start_env_server,
            "grader": self.stack.start_grader,
            "gateway": self.stack.start_gateway,
            "learner": self._start_learner,
        }
        restart[name]()

    def pause(self, seconds: float) -> None:
        """Let the run go on for a while; shorter when the learner is done."""
        learner, end = self.stack.find("learner"), time.monotonic() + seconds
        wait_until(
            lambda: time.monotonic() >= end or (learner and learner.exit_status is not None),
            "the pause",
            seconds + 30,
        )

    def wait_for_job(self, seconds: float) -> None:
        wait_until(
            lambda: self.job().state != gateway_service_pb2.JOB_STATE_RUNNING, "the job", seconds
        )

    def wait_for_learner(self, seconds: float = 600) -> None:
        learner = self.stack.find("learner")
        assert learner is not None

        def is_done() -> bool:
            self.submit_when_trained()
            return learner.exit_status is not None

        wait_until(is_done, "the end of the learner", seconds)
        assert learner.exit_status == 0, learner.last_words()

    def steps(self) -> list[dict[str, Any]]:
        """One per update, the last word on it: a step that was lost with its checkpoint is made again."""
        lines = _lines(self.folder / "learner" / "steps.jsonl")
        return list({line["update"]: line for line in lines}.values())

    def ids(self) -> Ids:
        ledger = _lines(self.folder / "learner" / "groups.jsonl")
        with redis.Redis.from_url(self.stack.redis_url, decode_responses=True) as client:
            return Ids(
                published=Counter(
                    outcome.group_id
                    for outcome in records.outcomes(self.options.gateway_state or self.folder)
                    if outcome.WhichOneof("end") == "published"
                ),
                on_redis=Counter(list(client.hkeys(streams.published_ids(self.run_id)))),  # pyright: ignore[reportArgumentType]
                consumed=Counter(line["group_id"] for line in ledger),
                trained=Counter(line["group_id"] for line in ledger if line["fate"] == "trained"),
                trained_on_redis=Counter(list(client.smembers(streams.trained_ids(self.run_id)))),  # pyright: ignore[reportArgumentType]
                left_on_stream=client.xlen(streams.group_stream(self.run_id)),  # pyright: ignore[reportArgumentType]
            )

    def _start_learner(self) -> object:
        return self.stack.start_learner(
            RECIPE,
            {
                "run": {
                    "id": self.run_id,
                    "dir": str(self.folder / "learner"),
                    "updates": self.updates,
                    "checkpoint_every": 1,
                    "keep_weights": len(TASKS) + 2,
                },
                # A wave is sampled at once, so its last group is as many versions behind.
                "admission": {"staleness": len(TASKS)},
                "batch": {"group_size": GROUP_SIZE, "groups_per_update": 1},
            },
        )

    def _gateway(self) -> GatewayClient:
        token = self.state.secrets()["gateway_infra"]
        return GatewayClient(self.stack.address("gateway", "grpc"), token)


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    whole = path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in whole if line.endswith("\n")]
