"""The gateway's infrastructure door, for commands: submit a job, follow it."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import grpc
from envfarm.v1 import gateway_service_pb2, gateway_service_pb2_grpc, policy_pb2

from envfarm_cli.failure import Failure

JobState = gateway_service_pb2.JobState
CALL_SECONDS = 30


class GatewayClient:
    """One channel; `with` closes it. RpcErrors are named by `failure.as_failure`."""

    def __init__(self, address: str, token: str):
        self._channel = grpc.insecure_channel(address)
        self._stub = gateway_service_pb2_grpc.GatewayServiceStub(self._channel)
        self._metadata = [("authorization", f"Bearer {token}")]

    def status(self) -> gateway_service_pb2.GetStatusResponse:
        return self._stub.GetStatus(
            gateway_service_pb2.GetStatusRequest(), metadata=self._metadata, timeout=CALL_SECONDS
        )

    def announce(self, update: policy_pb2.WeightUpdate) -> None:
        self._stub.AnnouncePolicy(
            gateway_service_pb2.AnnouncePolicyRequest(update=update),
            metadata=self._metadata,
            timeout=CALL_SECONDS,
        )

    def submit(self, request: gateway_service_pb2.SubmitJobRequest) -> None:
        self._stub.SubmitJob(request, metadata=self._metadata, timeout=CALL_SECONDS)

    def job(self, job_id: str) -> gateway_service_pb2.JobStatus:
        """Failure when the gateway has no such job."""
        found = next((job for job in self.status().jobs if job.job_id == job_id), None)
        if found is None:
            raise Failure(f"the gateway has no job {job_id}", hint="see `envfarm status`")
        return found

    def cancel(self, job_id: str) -> gateway_service_pb2.JobStatus:
        """End a job early; its state then."""
        return self._stub.CancelJob(
            gateway_service_pb2.CancelJobRequest(job_id=job_id),
            metadata=self._metadata,
            timeout=CALL_SECONDS,
        ).job

    def wait_for_version(
        self, run_id: str, number: int, seconds: float, tick: Callable[[], None]
    ) -> str:
        """Wait until this version or a later one of the run is in service; its weights hash."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            now = self.status()
            version = now.in_service
            if now.HasField("in_service") and version.run_id == run_id and version.number >= number:
                return version.weights_hash
            tick()
            time.sleep(0.2)
        raise Failure(
            f"policy version {number} of {run_id} was not in service after {seconds:.0f} s",
            hint="read the logs of learner and gateway",
        )

    def wait_for_job(
        self,
        job_id: str,
        seconds: float,
        tick: Callable[[gateway_service_pb2.JobStatus], None],
    ) -> gateway_service_pb2.JobStatus:
        """Wait until the job is done; Failure when it was cancelled, failed or is too slow."""
        deadline = time.monotonic() + seconds
        waits_for = ""
        while time.monotonic() < deadline:
            job = next((job for job in self.status().jobs if job.job_id == job_id), None)
            if job is not None:
                tick(job)
                waits_for = job.waiting_for
                if job.state == JobState.JOB_STATE_DONE:
                    return job
                if job.state != JobState.JOB_STATE_RUNNING:
                    name = JobState.Name(job.state).removeprefix("JOB_STATE_").lower()
                    raise Failure(f"job {job_id} ended {name}: {job.message}")
            time.sleep(0.1)
        raise Failure(
            f"job {job_id} was not done after {seconds:.0f} s"
            + (f"; it waits for {waits_for}" if waits_for else ""),
            hint="read the gateway's log",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.close()
