"""Reads the evidence of a sealed episode from its env-server, with the grader's token."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import grpc
import grpc.aio
from envfarm.errors import (
    ConfigError,
    DeadlineError,
    EvidenceError,
    GraderError,
    InvalidArgument,
    Unauthenticated,
    WrongScope,
    boundary,
)
from envfarm.v1 import env_service_pb2, env_service_pb2_grpc, evidence_pb2
from envfarm_common import tracing
from envfarm_common.grpc import connect

from grader.checks.sql import MAX_ROWS
from grader.evidence import Change, Evidence, Op, Table, verified
from grader.verdict import CannotRun
from grader.world_base import WorldBase, make_base

_MAX_PEERS = 256
_OPS: dict[int, Op] = {
    evidence_pb2.ROW_OP_INSERT: "insert",
    evidence_pb2.ROW_OP_UPDATE: "update",
    evidence_pb2.ROW_OP_DELETE: "delete",
}


@dataclass(slots=True)
class _Peer:
    channel: grpc.aio.Channel
    stub: env_service_pb2_grpc.EnvServiceStub
    metadata: list[tuple[str, str]]
    users: int = 0


class EvidenceClient:
    """Channels to env-servers, opened on demand and kept while they are of use."""

    def __init__(self, token: str, timeout_seconds: float):
        self._token = token
        self._timeout = timeout_seconds
        self._peers: OrderedDict[str, _Peer] = OrderedDict()

    async def read(self, target: str, episode_id: str) -> Evidence:
        """The verified evidence. EvidenceError when it is torn; GraderError when the env-server
        cannot be reached; what the env-server itself says (UnknownEpisode, WrongState, ...)."""
        evidence, _ = await self._stream(target, episode_id, ())
        return evidence

    async def read_world(self, target: str, episode_id: str) -> WorldBase:
        """The initial state of the world, from a sealed episode that changed nothing; errors as
        `read`, and EvidenceError when it did change something."""
        bare = await self.read(target, episode_id)
        evidence, rows = await self._stream(target, episode_id, tuple(bare.tables))
        async with self._peer(target) as peer:
            with _crossing(f"asking {target} for the world"):
                told = await peer.stub.DescribeWorld(
                    env_service_pb2.DescribeWorldRequest(task_id=evidence.task_id),
                    metadata=tracing.with_trace(peer.metadata),
                    timeout=self._timeout,
                )
        if told.world.world_hash != evidence.world_hash:
            raise EvidenceError("the world changed while it was being read")
        return make_base(evidence, rows, told.schema_sql, told.world_now)

    async def _stream(
        self, target: str, episode_id: str, whole_tables: Sequence[str]
    ) -> tuple[Evidence, dict[str, list[str]]]:
        header: evidence_pb2.EvidenceHeader | None = None
        changes: list[evidence_pb2.RowChange] = []
        rows: dict[str, list[str]] = {}
        async with self._peer(target) as peer:
            with _crossing(f"reading evidence from {target}"):
                stream = peer.stub.ReadEvidence(
                    env_service_pb2.ReadEvidenceRequest(
                        episode_id=episode_id, whole_tables=whole_tables
                    ),
                    metadata=tracing.with_trace(peer.metadata),
                    timeout=self._timeout,
                )
                async for chunk in stream:
                    part = chunk.WhichOneof("part")
                    if (part == "header") != (header is None):
                        raise EvidenceError("the evidence stream does not start with one header")
                    if part == "header":
                        header = chunk.header
                    elif part == "changes":
                        changes.extend(chunk.changes.changes)
                    elif part == "rows":
                        rows.setdefault(chunk.rows.table, []).extend(chunk.rows.rows_json)
        if header is None:
            raise EvidenceError("the evidence stream is empty")
        if header.episode_id != episode_id:
            raise EvidenceError(f"asked for {episode_id}, got {header.episode_id}")
        return verified(_evidence(header, changes)), rows

    async def query(self, target: str, episode_id: str, query: str) -> Sequence[str]:
        """Rows of a read-only query as JSON; CannotRun when the query itself is at fault.

        A query that takes too long is asked once more, since a busy machine is no fault of it.
        """
        try:
            try:
                return await self._query(target, episode_id, query)
            except DeadlineError:
                return await self._query(target, episode_id, query)
        except (InvalidArgument, DeadlineError) as error:
            raise CannotRun(f"the query fails: {error.message}") from error

    async def _query(self, target: str, episode_id: str, query: str) -> Sequence[str]:
        async with self._peer(target) as peer:
            with _crossing(f"querying {target}"):
                response = await peer.stub.RunReadOnly(
                    env_service_pb2.RunReadOnlyRequest(
                        episode_id=episode_id, query=query, max_rows=MAX_ROWS
                    ),
                    metadata=tracing.with_trace(peer.metadata),
                    timeout=self._timeout,
                )
        return list(response.rows_json)

    async def close(self) -> None:
        for peer in self._peers.values():
            await peer.channel.close()
        self._peers.clear()

    @asynccontextmanager
    async def _peer(self, target: str) -> AsyncIterator[_Peer]:
        peer = self._peers.get(target)
        if peer is None:
            channel, metadata = connect(target, self._token)
            peer = _Peer(channel, env_service_pb2_grpc.EnvServiceStub(channel), metadata)
            self._peers[target] = peer
        self._peers.move_to_end(target)
        peer.users += 1
        try:
            yield peer
        finally:
            peer.users -= 1
            await self._close_surplus()

    async def _close_surplus(self) -> None:
        idle = [target for target, peer in self._peers.items() if not peer.users]
        for target in idle[: max(0, len(self._peers) - _MAX_PEERS)]:
            await self._peers.pop(target).channel.close()


@contextmanager
def _crossing(what: str) -> Iterator[None]:
    """Attribute a failure; a token of ours that is refused is our operator's matter, not the caller's."""
    try:
        with boundary(GraderError, what):
            yield
    except (Unauthenticated, WrongScope) as error:
        raise ConfigError(
            f"{what}: the env-server refuses the grader's token",
            hint="GRADER_EVIDENCE_TOKEN must be the env-server's ENV_SERVER_GRADER_TOKEN",
        ) from error


def _evidence(
    header: evidence_pb2.EvidenceHeader, changes: Sequence[evidence_pb2.RowChange]
) -> Evidence:
    tables = {
        table.table: Table(
            name=table.table,
            rows=table.rows,
            hash=table.hash,
            key_columns=tuple(table.key_columns),
            columns=tuple(table.columns),
        )
        for table in header.tables
    }
    if len(tables) != len(header.tables):
        raise EvidenceError("the evidence header names a table twice")
    return Evidence(
        episode_id=header.episode_id,
        task_id=header.task.task_id,
        task_hash=header.task.task_hash,
        world_id=header.world.world_id,
        world_hash=header.world.world_hash,
        initial_state_hash=header.initial_state_hash,
        final_state_hash=header.final_state_hash,
        tables=tables,
        changes=tuple(map(_change, changes)),
    )


def _change(change: evidence_pb2.RowChange) -> Change:
    if change.op not in _OPS:
        raise EvidenceError(f"{change.table} {change.key_json}: unknown row operation")
    return Change(
        table=change.table,
        op=_OPS[change.op],
        key=change.key_json,
        before=change.before_json,
        after=change.after_json,
    )


@dataclass(frozen=True, slots=True)
class EpisodeState:
    """The final state of one sealed episode, read from its env-server."""

    client: EvidenceClient
    target: str
    episode_id: str

    async def read(self) -> Evidence:
        """As `EvidenceClient.read`."""
        return await self.client.read(self.target, self.episode_id)

    async def query(self, query: str) -> Sequence[str]:
        """As `EvidenceClient.query`."""
        return await self.client.query(self.target, self.episode_id, query)
