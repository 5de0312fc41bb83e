"""An EnvService door that serves evidence made by hand, wrong evidence included.

Only for what a real env-server never does (torn streams, forged hashes) and for tests of the
grader's own door; everything else runs on the real one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
import grpc.aio
from envfarm.errors import DatabaseError, InvalidArgument, UnknownEpisode
from envfarm.v1 import env_service_pb2, env_service_pb2_grpc, evidence_pb2, task_pb2
from envfarm_common import auth
from envfarm_common.grpc import authorization, serve

from grader.evidence import Evidence

OPS = {
    "insert": evidence_pb2.ROW_OP_INSERT,
    "update": evidence_pb2.ROW_OP_UPDATE,
    "delete": evidence_pb2.ROW_OP_DELETE,
}


@dataclass
class CannedEnvServer(env_service_pb2_grpc.EnvServiceServicer):
    """Episodes by id; `torn` ones send no header, `broken` ones meet a dead database."""

    token: str
    episodes: dict[str, Evidence] = field(default_factory=dict)
    rows: dict[str, list[str]] = field(default_factory=dict)
    """Answers to read-only queries; any other query is refused."""
    torn: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    hold: asyncio.Event | None = None
    """When set to an event, evidence is read only once that is set."""
    reads: int = 0
    address: str = ""

    async def ReadEvidence(
        self, request: env_service_pb2.ReadEvidenceRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[evidence_pb2.EvidenceChunk]:
        auth.require(authorization(context), "grader", {"grader": self.token})
        self.reads += 1
        if self.hold:
            await self.hold.wait()
        if request.episode_id in self.broken:
            raise DatabaseError("the database is gone")
        if request.episode_id not in self.episodes:
            raise UnknownEpisode(f"no episode {request.episode_id}")
        evidence = self.episodes[request.episode_id]
        if request.episode_id not in self.torn:
            yield evidence_pb2.EvidenceChunk(header=_header(request.episode_id, evidence))
        for change in evidence.changes:
            row_change = evidence_pb2.RowChange(
                table=change.table,
                key_json=change.key,
                op=OPS[change.op],
                before_json=change.before,
                after_json=change.after,
            )
            yield evidence_pb2.EvidenceChunk(changes=evidence_pb2.RowChanges(changes=[row_change]))

    async def RunReadOnly(
        self, request: env_service_pb2.RunReadOnlyRequest, context: grpc.aio.ServicerContext
    ) -> env_service_pb2.RunReadOnlyResponse:
        auth.require(authorization(context), "grader", {"grader": self.token})
        if request.query not in self.rows:
            raise InvalidArgument("syntax error at or near ...")
        return env_service_pb2.RunReadOnlyResponse(rows_json=self.rows[request.query])


@asynccontextmanager
async def canned_env_server(token: str) -> AsyncIterator[tuple[CannedEnvServer, grpc.aio.Server]]:
    canned = CannedEnvServer(token)
    server, port = await serve(
        "127.0.0.1:0",
        lambda s: env_service_pb2_grpc.add_EnvServiceServicer_to_server(canned, s),
    )
    canned.address = f"127.0.0.1:{port}"
    try:
        yield canned, server
    finally:
        await server.stop(None)


def _header(episode_id: str, evidence: Evidence) -> evidence_pb2.EvidenceHeader:
    return evidence_pb2.EvidenceHeader(
        episode_id=episode_id,
        task=task_pb2.TaskRef(task_id=evidence.task_id, task_hash=evidence.task_hash),
        world=task_pb2.WorldRef(world_id="shop", world_hash=evidence.world_hash),
        initial_state_hash=evidence.initial_state_hash,
        final_state_hash=evidence.final_state_hash,
        source=evidence_pb2.EVIDENCE_SOURCE_WHOLE_TABLES,
        tables=[
            evidence_pb2.TableDigest(
                table=table.name,
                rows=table.rows,
                hash=table.hash,
                key_columns=table.key_columns,
                columns=table.columns,
            )
            for table in evidence.tables.values()
        ],
    )
