"""A stack of real services without vLLM, a learner, and a real Prometheus that watches them.

The scripted policy plays the tasks and answers one log-probability to everything, so the learner's
tolerances are wide open: what is looked at here is what the boards and alerts say of it.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from envfarm.v1 import gateway_service_pb2

from envfarm_cli.gateway_client import GatewayClient
from envfarm_cli.prometheus_api import Prometheus, Series
from envfarm_cli.service_specs import StackOptions, free_port
from envfarm_cli.stack import Stack
from envfarm_cli.state_dir import StateDir
from envfarm_watch.panel import Query
from tests.support.domains import orders_alone
from tests.support.polling import wait_until

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "learner/configs/tiny-cpu.toml"
RUN = "watched"
TASKS = ("orders/refund-damaged", "orders/cancel-placed", "orders/address-change")
AGREED = "orders/refund-too-late"
"""Every attempt passes it, so a group of it has nothing to learn from."""
GROUP_SIZE = 2
FIXED = (
    "env-server.http",
    "env-server.grpc",
    "grader.http",
    "grader.grpc",
    "gateway.http",
    "gateway.grpc",
)
JobKind = gateway_service_pb2.JobKind
"""An enumeration; its members are whole numbers."""


def find_prometheus() -> Path:
    """The program; skips the test that asks where there is none."""
    named = os.environ.get("ENVFARM_PROMETHEUS", "prometheus")
    found = shutil.which(named)
    if found is None:
        pytest.skip("no prometheus here: install the system package, or set ENVFARM_PROMETHEUS")
    return Path(found)


class WatchedRun:
    """`with WatchedRun(folder, program, …) as run`: version 0 is in service and is being scraped."""

    def __init__(
        self,
        folder: Path,
        program: Path,
        *,
        scrape_seconds: int,
        attempt_seconds: float,
        may_restart: bool = False,
        env_settings: dict[str, str] | None = None,
        gateway_settings: dict[str, str] | None = None,
    ):
        """With `may_restart` services keep their ports, so that one can be started again."""
        self.folder, self._program = folder, program
        self.scrape_seconds = scrape_seconds
        self.state = StateDir(folder / "state")
        self.options = StackOptions(
            domains=orders_alone(folder / "domains", {*TASKS, AGREED}),
            engine="scripted",
            gateway_state=folder / "gateway",
            ports={name: free_port() for name in FIXED} if may_restart else {},
            env_settings={
                "ENV_SERVER_MAX_EPISODES": "3",
                "ENV_SERVER_READY_LOW": "1",
                "ENV_SERVER_READY_HIGH": "2",
                **(env_settings or {}),
            },
            gateway_settings={
                "GATEWAY_SLOT_MODE": "reuse",
                "GATEWAY_CONCURRENCY": "6",
                "GATEWAY_ATTEMPT_SECONDS": str(attempt_seconds),
                **(gateway_settings or {}),
            },
        )
        self.lines: list[str] = []
        self.stack = Stack(self.state, self.options, self.lines.append)
        self.started = self.started_learner = 0.0
        """Since when it is scraped, and since when the learner waits for groups."""
        self._watch: subprocess.Popen[str] | None = None
        self._jobs = 0

    def __enter__(self) -> "WatchedRun":
        # Postgres may run under another account, which must be able to pass through.
        for path in (self.folder, *self.folder.parents):
            if path.stat().st_uid == os.getuid() and path != Path("/"):
                path.chmod(path.stat().st_mode | 0o011)
        self.state.make()
        try:
            self.stack.start()
            self.prometheus = self._start_watching()
            self.started = time.time()
            self.start_learner()
            with self.gateway() as gateway:
                gateway.wait_for_version(RUN, 0, 600, self.stack.fail_when_one_died)
            self.started_learner = time.time()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.send_signal(signal.SIGINT)
            self._watch.communicate(timeout=60)
        self.stack.stop()

    def gateway(self) -> GatewayClient:
        token = self.state.secrets()["gateway_infra"]
        return GatewayClient(self.stack.address("gateway", "grpc"), token)

    def play(self, *tasks: str, kind: "JobKind" = JobKind.JOB_KIND_TRAIN, groups: int = 1) -> str:
        """Submit a job of these tasks; its id. Groups of a training job go to the learner."""
        self._jobs += 1
        request = gateway_service_pb2.SubmitJobRequest(
            job_id=f"{RUN}-{self._jobs}",
            run_id=RUN,
            task_ids=tasks,
            groups_per_task=groups,
            group_size=GROUP_SIZE,
            kind=kind,
            publish=kind == JobKind.JOB_KIND_TRAIN,
        )
        with self.gateway() as gateway:
            gateway.submit(request)
        return request.job_id

    def wait_for_job(self, job_id: str, seconds: float = 500) -> None:
        with self.gateway() as gateway:
            gateway.wait_for_job(job_id, seconds, lambda _: self.stack.fail_when_one_died())

    def settle(self) -> None:
        """Until the learner has nothing in front of it: a publication would resume the engine."""
        self.wait_for("sum(envfarm_undelivered_groups)", lambda groups: groups == 0, 400)
        self.wait_for(
            'min(min_over_time(envfarm_learner_phase{phase="wait"}[15s]))', lambda at: at == 1, 400
        )

    def pause_engine(self) -> None:
        """Generations hang until `resume_engine`."""
        httpx.post(f"{self.stack.address('policy', 'http')}/pause", timeout=30).raise_for_status()

    def resume_engine(self) -> None:
        httpx.post(f"{self.stack.address('policy', 'http')}/resume", timeout=30).raise_for_status()

    def signal(self, name: str, number: signal.Signals) -> None:
        child = self.stack.find(name)
        assert child is not None
        os.kill(child.process.pid, number)

    def steps(self) -> int:
        path = self.folder / "learner" / "steps.jsonl"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def series(self, query: Query, start: float, end: float) -> list[Series]:
        """A panel's query over a time; rates over six scrapes."""
        expression = query.expression.replace("$window", f"{6 * self.scrape_seconds}s")
        return self.prometheus.range(expression, start, end, self.scrape_seconds)

    def value(self, expression: str, true: Callable[[float], bool], seconds: float) -> float:
        """The first of the expression's values of which `true` holds; waits for it."""
        found: list[float] = []

        def holds() -> bool:
            now = time.time()
            lines = self.prometheus.range(expression, now, now, 1)
            found[:] = [line.values[-1] for line in lines if true(line.values[-1])]
            return bool(found)

        wait_until(holds, expression, seconds)
        return found[0]

    def wait_for(self, expression: str, true: Callable[[float], bool], seconds: float) -> None:
        """Until the expression has a value now of which `true` holds."""
        self.value(expression, true, seconds)

    def start_learner(self) -> None:
        overrides: dict[str, dict[str, Any]] = {
            "run": {
                "id": RUN,
                "dir": str(self.folder / "learner"),
                "updates": 1000,
                "checkpoint_every": 2,
                "keep_weights": 4,
            },
            "batch": {"group_size": GROUP_SIZE, "groups_per_update": 1},
            "admission": {"staleness": 1, "mismatch_tolerance": 100.0},
            # Every second update stands between two versions, and its tokens tell no mismatch.
            "publish": {"every": 2, "probe_tolerance": 100.0},
        }
        self.stack.start_learner(RECIPE, overrides)

    def _start_watching(self) -> Prometheus:
        rules = self.folder / "rules"
        shutil.copytree(ROOT / "deploy/prometheus", rules)
        config = rules / "prometheus.yml"
        seconds = f"{self.scrape_seconds}s"
        config.write_text(config.read_text().replace("interval: 5s", f"interval: {seconds}"))
        argv = [sys.executable, "-m", "envfarm_cli", "watch", "--json", "--rules", str(rules)]
        argv += ["--prometheus", str(self._program), "--port", str(free_port())]
        argv += ["--state-dir", str(self.state.path)]
        self._watch = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._watch.stdout is not None
        return Prometheus(json.loads(self._watch.stdout.readline())["url"])
