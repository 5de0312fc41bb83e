"""HTTP routes for people and the CLI, behind the infrastructure token: status, jobs, conversations."""

from typing import Annotated, Any

from envfarm.errors import UnknownEpisode
from envfarm.v1 import gateway_service_pb2 as wire
from envfarm_common import auth
from fastapi import Depends, FastAPI, Header
from google.protobuf import json_format
from google.protobuf.message import Message

from rollout_gateway.conversation import conversation
from rollout_gateway.jobs import Jobs
from rollout_gateway.rpc import INFRASTRUCTURE, GatewayService


def add_routes(app: FastAPI, service: GatewayService, jobs: Jobs, infra_token: str) -> None:
    """Serve GET /v1/status, /v1/jobs, /v1/jobs/{id}/rollouts and /v1/rollouts/{id}."""

    async def require_infrastructure(
        authorization: Annotated[str | None, Header()] = None,
    ) -> None:
        auth.require(authorization, INFRASTRUCTURE, {INFRASTRUCTURE: infra_token})

    guard = [Depends(require_infrastructure)]

    @app.get("/v1/status", summary="Version in service, engines, jobs", dependencies=guard)
    async def status() -> dict[str, Any]:
        return _json(service.status())

    @app.get("/v1/jobs", summary="All jobs", dependencies=guard)
    async def all_jobs() -> list[dict[str, Any]]:
        return [_json(job) for job in service.status().jobs]

    @app.get("/v1/jobs/{job_id}/rollouts", summary="Attempts of a job", dependencies=guard)
    async def job_rollouts(job_id: str) -> list[dict[str, Any]]:
        job = jobs.find(job_id)
        if job is None:
            raise UnknownEpisode(f"there is no job {job_id}")
        return job.record.summaries()

    @app.get("/v1/rollouts/{rollout_id}", summary="One attempt, readable", dependencies=guard)
    async def rollout(rollout_id: str) -> dict[str, Any]:
        found = jobs.find_rollout(rollout_id)
        if found is None:
            raise UnknownEpisode(
                f"no rollout {rollout_id} is on record",
                hint="see /v1/jobs/{job_id}/rollouts for those that are",
            )
        return conversation(found.rollout, found.failure)


def _json(message: wire.GetStatusResponse | wire.JobStatus | Message) -> dict[str, Any]:
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
