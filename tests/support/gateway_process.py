"""A real gateway (`python -m rollout_gateway`) as a child process, and its doors."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import httpx
from envfarm.errors import EngineError, from_rpc
from envfarm.v1 import gateway_service_pb2 as wire
from envfarm.v1 import policy_pb2
from envfarm.v1.gateway_service_pb2_grpc import GatewayServiceStub
from envfarm_common.grpc import connect

INFRA_TOKEN = "gateway-token-for-tests"
START_SECONDS = 30.0


def settings(state_dir: Path, **values: Any) -> dict[str, str]:
    """GATEWAY_* variables; `values` are named as in rollout_gateway.settings."""
    known = {
        "infra_token": INFRA_TOKEN,
        "state_dir": state_dir,
        "ready_file": state_dir.with_name(state_dir.name + "-ready.json"),
        **values,
    }
    return {f"GATEWAY_{name}".upper(): str(value) for name, value in known.items()}


def probe(
    version: policy_pb2.PolicyVersion,
    path: Path,
    ids: list[int],
    logprobs: list[float],
    *,
    epoch: int = 1,
    tolerance: float = 1e-4,
) -> policy_pb2.WeightUpdate:
    return policy_pb2.WeightUpdate(
        version=version,
        path=str(path),
        learner_epoch=epoch,
        probe=policy_pb2.ProbePrompt(token_ids=ids, logprobs=logprobs, tolerance=tolerance),
    )


class GatewayProcess:
    def __init__(self, env: dict[str, str], log: Path):
        self._env, self._log = env, log
        self._ready = Path(env["GATEWAY_READY_FILE"])
        self.process: subprocess.Popen[bytes] | None = None
        self.http = self.grpc = ""

    def start(self) -> "GatewayProcess":
        self._ready.unlink(missing_ok=True)
        with self._log.open("ab") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rollout_gateway"],
                env={"PATH": os.environ["PATH"], **self._env},
                stderr=sink,
                stdout=sink,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the gateway did not start:\n{self.log()[-4000:]}")
            time.sleep(0.02)
        facts = json.loads(self._ready.read_text())
        self.http, self.grpc = f"http://{facts['http']}", facts["grpc"]
        return self

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def stop(self) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """As a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    async def call(self, method: str, request: Any, token: str = INFRA_TOKEN) -> Any:
        channel, metadata = connect(self.grpc, token)
        async with channel:
            try:
                stub: Any = GatewayServiceStub(channel)
                return await getattr(stub, method)(request, metadata=metadata, timeout=300)
            except grpc.RpcError as error:
                raise from_rpc(error, EngineError) from error

    async def announce(self, update: policy_pb2.WeightUpdate) -> wire.AnnouncePolicyResponse:
        return await self.call("AnnouncePolicy", wire.AnnouncePolicyRequest(update=update))

    async def submit(self, job_id: str, tasks: list[str], **fields: Any) -> None:
        fields = {"run_id": "run", "groups_per_task": 1, "publish": True, **fields}
        await self.call("SubmitJob", wire.SubmitJobRequest(job_id=job_id, task_ids=tasks, **fields))

    async def job(self, job_id: str) -> wire.JobStatus:
        status = await self.call("GetStatus", wire.GetStatusRequest())
        return next(job for job in status.jobs if job.job_id == job_id)

    async def until(
        self, job_id: str, wanted: Callable[[wire.JobStatus], bool], seconds: float = 60.0
    ) -> wire.JobStatus:
        deadline = time.monotonic() + seconds
        while not wanted(job := await self.job(job_id)):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s: {job}\n{self.log()[-4000:]}")
            await asyncio.sleep(0.05)
        return job

    async def done(self, job_id: str, seconds: float = 60.0) -> wire.JobStatus:
        return await self.until(job_id, lambda job: job.state != wire.JOB_STATE_RUNNING, seconds)

    async def get(self, path: str, token: str = INFRA_TOKEN) -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            return await client.get(
                f"{self.http}{path}", headers={"Authorization": f"Bearer {token}"}
            )
