"""EnvService: protobuf in, domain calls, protobuf out; and which token opens which rpc."""

from collections.abc import AsyncIterator, Mapping

import grpc
from envfarm.errors import InvalidArgument, WrongScope
from envfarm.v1 import env_service_pb2 as pb
from envfarm.v1 import episode_pb2, evidence_pb2
from envfarm.v1.env_service_pb2_grpc import EnvServiceServicer
from envfarm_common import auth
from envfarm_common.grpc import authorization
from google.protobuf.message import Message

from env_server import read_only, wire
from env_server.episodes import Episodes

INFRASTRUCTURE = "infrastructure"
GRADER = "grader"
MAX_ARGUMENT_BYTES = 1 << 20

Context = grpc.aio.ServicerContext


class EnvService(EnvServiceServicer):
    def __init__(self, episodes: Episodes, tokens: Mapping[str, str], mcp_url: str):
        self._episodes = episodes
        self._tokens = tokens
        self._mcp_url = mcp_url
        self.address = ""
        """host:port of this door, once it is open."""

    def _require(self, context: Context, scope: str) -> None:
        header = authorization(context)
        if header and self._episodes.find_by_token(auth.bearer(header)):
            raise WrongScope("an agent's token opens the tools of its episode and nothing else")
        auth.require(header, scope, self._tokens)

    async def ListTasks(self, request: pb.ListTasksRequest, context: Context) -> Message:
        self._require(context, INFRASTRUCTURE)
        found = [
            task
            for task in self._episodes.catalog.tasks.values()
            if request.domain in ("", task.world.world_id)
        ]
        return wire.task_page(found, request.page_token)

    async def OpenEpisode(self, request: pb.OpenEpisodeRequest, context: Context) -> Message:
        self._require(context, INFRASTRUCTURE)
        if request.slot_mode not in episode_pb2.SlotMode.values():
            raise InvalidArgument(f"slot_mode {request.slot_mode} is not known")
        live = await self._episodes.open(
            request_id=request.request_id,
            task_id=request.task_id,
            task_hash=request.task_hash,
            lease_seconds=request.lease_seconds,
            client=request.client,
            may_reuse=request.slot_mode == episode_pb2.SLOT_MODE_REUSE,
        )
        episode = wire.episode_message(live, self._mcp_url, self.address)
        return pb.OpenEpisodeResponse(episode=episode)

    async def RenewLease(self, request: pb.RenewLeaseRequest, context: Context) -> Message:
        self._require(context, INFRASTRUCTURE)
        return pb.RenewLeaseResponse(gone=self._episodes.renew(request.episode_ids))

    async def CallTool(self, request: pb.CallToolRequest, context: Context) -> Message:
        self._require(context, INFRASTRUCTURE)
        if len(request.arguments_json.encode()) > MAX_ARGUMENT_BYTES:
            raise InvalidArgument("arguments_json is larger than 1 MiB")
        live = self._episodes.find(request.episode_id)
        seen = await self._episodes.calls.call(
            live, request.tool, request.arguments_json, request.request_id
        )
        return pb.CallToolResponse(
            result=episode_pb2.ToolResult(
                content=seen.content, is_error=seen.is_error, seconds=seen.seconds
            )
        )

    async def SealEpisode(self, request: pb.SealEpisodeRequest, context: Context) -> Message:
        self._require(context, INFRASTRUCTURE)
        live = self._episodes.find(request.episode_id)
        found = await self._episodes.seal(live)
        return pb.SealEpisodeResponse(
            final_state_hash=found.final_state_hash,
            tool_calls=live.tool_calls,
            tool_seconds=live.tool_seconds,
        )

    async def ReadEvidence(
        self, request: pb.ReadEvidenceRequest, context: Context
    ) -> AsyncIterator[Message]:
        self._require(context, GRADER)
        live = self._episodes.find(request.episode_id)
        found = await self._episodes.sealed(live)
        names = {digest.table.name for digest in found.digests}
        unknown = [name for name in request.whole_tables if name not in names]
        if unknown:
            raise InvalidArgument(f"there is no table {', '.join(unknown)}")
        yield evidence_pb2.EvidenceChunk(header=wire.evidence_header(live, found))
        for chunk in wire.change_chunks(found.changes):
            yield chunk
        for name in dict.fromkeys(request.whole_tables):
            rows = await self._episodes.rows(live, name)
            for chunk in wire.row_chunks(name, rows.canonical):
                yield chunk

    async def RunReadOnly(self, request: pb.RunReadOnlyRequest, context: Context) -> Message:
        self._require(context, GRADER)
        live = self._episodes.find(request.episode_id)
        conn = await self._episodes.grader_connection(live)
        answer = await read_only.query(conn, request.query, request.max_rows)
        return pb.RunReadOnlyResponse(columns=answer.columns, rows_json=answer.rows_json)

    async def DescribeWorld(self, request: pb.DescribeWorldRequest, context: Context) -> Message:
        self._require(context, GRADER)
        task = self._episodes.catalog.task(request.task_id, "")
        return pb.DescribeWorldResponse(
            world=wire.world_ref(task),
            world_now=task.world.now.isoformat(),
            schema_sql=task.world.schema_file.read_text(encoding="utf-8"),
        )

    async def CloseEpisode(self, request: pb.CloseEpisodeRequest, context: Context) -> Message:
        self._require(context, INFRASTRUCTURE)
        state = await self._episodes.close(request.episode_id)
        return pb.CloseEpisodeResponse(state=wire.STATES[state])

    async def GetCapacity(self, request: pb.GetCapacityRequest, context: Context) -> Message:
        self._require(context, INFRASTRUCTURE)
        episodes = self._episodes
        return pb.GetCapacityResponse(
            max_episodes=episodes.admission.max_episodes,
            live_episodes=episodes.live_count,
            ready_slots=episodes.ready_slots(),
            draining=episodes.draining,
            postgres_version=episodes.postgres_version,
            not_reused=episodes.reuse_obstacles(),
        )
