"""GatewayService: wire ↔ domain only."""

from collections.abc import Mapping

import grpc.aio
from envfarm.errors import InvalidArgument
from envfarm.v1 import gateway_service_pb2 as wire
from envfarm.v1.gateway_service_pb2_grpc import GatewayServiceServicer
from envfarm_common import auth
from envfarm_common.grpc import authorization

from rollout_gateway.chat_endpoint import ChatEndpoint
from rollout_gateway.job_request import job_spec
from rollout_gateway.job_status import job_status
from rollout_gateway.policy import EngineState, Policy
from rollout_gateway.scheduler import Scheduler
from rollout_gateway.versions import Versions

INFRASTRUCTURE = "infrastructure"
Context = grpc.aio.ServicerContext


class GatewayService(GatewayServiceServicer):
    def __init__(
        self,
        policy: Policy,
        versions: Versions,
        scheduler: Scheduler,
        tokens: Mapping[str, str],
        sampling_hash: str,
        chat: ChatEndpoint | None = None,
    ):
        self._policy, self._versions, self._scheduler = policy, versions, scheduler
        self._tokens, self._sampling_hash, self._chat = tokens, sampling_hash, chat

    async def AnnouncePolicy(
        self, request: wire.AnnouncePolicyRequest, context: Context
    ) -> wire.AnnouncePolicyResponse:
        self._require(context)
        version, gap, seconds = await self._versions.announce(request.update)
        return wire.AnnouncePolicyResponse(in_service=version, max_logprob_gap=gap, seconds=seconds)

    async def GetStatus(
        self, request: wire.GetStatusRequest, context: Context
    ) -> wire.GetStatusResponse:
        self._require(context)
        return self.status()

    async def SubmitJob(
        self, request: wire.SubmitJobRequest, context: Context
    ) -> wire.SubmitJobResponse:
        self._require(context)
        job = await self._scheduler.submit(job_spec(request))
        return wire.SubmitJobResponse(job_id=job.spec.job_id)

    async def CancelJob(
        self, request: wire.CancelJobRequest, context: Context
    ) -> wire.CancelJobResponse:
        self._require(context)
        if not request.job_id:
            raise InvalidArgument("job_id is empty")
        return wire.CancelJobResponse(job=job_status(await self._scheduler.cancel(request.job_id)))

    async def ResumeJob(
        self, request: wire.ResumeJobRequest, context: Context
    ) -> wire.ResumeJobResponse:
        self._require(context)
        return wire.ResumeJobResponse(job=job_status(await self._scheduler.resume(request.job_id)))

    def status(self) -> wire.GetStatusResponse:
        return wire.GetStatusResponse(
            in_service=self._versions.in_service,
            jobs=[job_status(job) for job in self._scheduler.jobs],
            engines=[
                wire.EngineStatus(
                    url=place.engine.url,
                    healthy=place.state is EngineState.SERVING,
                    running=place.running,
                )
                for place in self._policy.places
            ],
            chat=self._chat
            and wire.ChatEndpointStatus(
                url=self._chat.url,
                model=self._chat.model,
                sampling_hash=self._chat.sampling_hash,
            ),
            sampling_hash=self._sampling_hash,
        )

    def _require(self, context: Context) -> None:
        auth.require(authorization(context), INFRASTRUCTURE, self._tokens)
