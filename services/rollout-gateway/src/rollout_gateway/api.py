"""HTTP routes behind the infrastructure token: status, jobs, attempts, conversations."""

import asyncio
from typing import Annotated, Any

from envfarm.errors import UnknownEpisode
from envfarm_common import auth
from fastapi import APIRouter, Depends, FastAPI, Header
from fastapi.responses import FileResponse, StreamingResponse

from rollout_gateway.conversation import conversation
from rollout_gateway.fleet import Fleet
from rollout_gateway.job_request import from_json, job_spec
from rollout_gateway.job_status import as_json, job_status, outcome_json, slots_json
from rollout_gateway.jobs import Job
from rollout_gateway.rpc import INFRASTRUCTURE, GatewayService
from rollout_gateway.scheduler import Scheduler
from rollout_gateway.watch import events


def add_routes(
    app: FastAPI,
    service: GatewayService,
    scheduler: Scheduler,
    fleet: Fleet,
    infra_token: str,
    stop: asyncio.Event,
) -> None:
    """Serve /v1/status, /v1/jobs and /v1/rollouts; watchers are let go once `stop` is set."""

    async def require_infrastructure(
        authorization: Annotated[str | None, Header()] = None,
    ) -> None:
        auth.require(authorization, INFRASTRUCTURE, {INFRASTRUCTURE: infra_token})

    routes = APIRouter(prefix="/v1", dependencies=[Depends(require_infrastructure)])

    @routes.get("/status", summary="Version in service, engines, jobs")
    async def status() -> dict[str, Any]:
        return as_json(service.status())

    _add_fleet_routes(routes, fleet)
    _add_job_routes(routes, scheduler, stop)
    _add_record_routes(routes, scheduler)
    app.include_router(routes)


def _add_fleet_routes(routes: APIRouter, fleet: Fleet) -> None:
    @routes.get("/fleet", summary="Engines and env-servers in use")
    async def describe() -> dict[str, Any]:
        return fleet.describe()

    @routes.put("/fleet/engines", summary="Use exactly these engines (URLs)")
    async def engines(urls: list[str]) -> dict[str, Any]:
        await fleet.use_engines(urls)
        return fleet.describe()

    @routes.put("/fleet/env-servers", summary="Open episodes at exactly these (host:port)")
    async def env_servers(addresses: list[str]) -> dict[str, Any]:
        await fleet.use_env_servers(addresses)
        return fleet.describe()


def _add_job_routes(routes: APIRouter, scheduler: Scheduler, stop: asyncio.Event) -> None:
    @routes.get("/jobs", summary="All jobs")
    async def all_jobs() -> list[dict[str, Any]]:
        return [as_json(job_status(job)) for job in scheduler.jobs]

    @routes.post("/jobs", summary="Submit a job; the same one again is a no-op", status_code=201)
    async def submit(body: dict[str, Any]) -> dict[str, Any]:
        return as_json(job_status(await scheduler.submit(job_spec(from_json(body)))))

    @routes.get("/jobs/{job_id}", summary="One job")
    async def one_job(job_id: str) -> dict[str, Any]:
        return as_json(job_status(_found(scheduler, job_id)))

    @routes.get("/jobs/{job_id}/slots", summary="What each running attempt does at this moment")
    async def slots(job_id: str) -> list[dict[str, str | int | float]]:
        return slots_json(_found(scheduler, job_id))

    @routes.get("/jobs/{job_id}/events", summary="A job as it goes on (server-sent events)")
    async def watch(
        job_id: str, last_event_id: Annotated[int, Header(ge=0)] = 0
    ) -> StreamingResponse:
        stream = events(_found(scheduler, job_id), stop, last_event_id)
        return StreamingResponse(
            stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    @routes.post("/jobs/{job_id}/cancel", summary="End a job early")
    async def cancel(job_id: str) -> dict[str, Any]:
        _found(scheduler, job_id)
        return as_json(job_status(await scheduler.cancel(job_id)))

    @routes.post("/jobs/{job_id}/resume", summary="Go on with a cancelled or failed job")
    async def resume(job_id: str) -> dict[str, Any]:
        _found(scheduler, job_id)
        return as_json(job_status(await scheduler.resume(job_id)))


def _add_record_routes(routes: APIRouter, scheduler: Scheduler) -> None:
    @routes.get("/jobs/{job_id}/groups", summary="How each group ended")
    async def groups(job_id: str) -> list[dict[str, Any]]:
        job = _found(scheduler, job_id)
        return [outcome_json(outcome) for outcome in job.record.outcomes.values()]

    @routes.get("/jobs/{job_id}/attempts", summary="Attempts as rows (JSON lines)")
    async def attempts(job_id: str) -> FileResponse:
        job = _found(scheduler, job_id)
        return FileResponse(job.record.rows_path, media_type="application/x-ndjson")

    @routes.get("/jobs/{job_id}/rollouts", summary="Attempts of a job, in short")
    async def job_rollouts(job_id: str) -> list[dict[str, Any]]:
        return _found(scheduler, job_id).record.summaries()

    @routes.get("/rollouts/{rollout_id}", summary="One attempt, readable")
    async def rollout(rollout_id: str) -> dict[str, Any]:
        found = scheduler.jobs.find_rollout(rollout_id)
        if found is None:
            raise UnknownEpisode(
                f"no rollout {rollout_id} is on record",
                hint="see /v1/jobs/{job_id}/rollouts for those that are",
            )
        return conversation(found.rollout, found.failure)


def _found(scheduler: Scheduler, job_id: str) -> Job:
    job = scheduler.jobs.find(job_id)
    if job is None:
        raise UnknownEpisode(f"there is no job {job_id}", hint="see /v1/jobs")
    return job
