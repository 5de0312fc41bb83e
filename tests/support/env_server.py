"""A real `python -m env_server` for tests.

    with running_env_server(DOMAINS) as server:
        async with server.client() as client:
            episode = await client.open("shelf/lend-emma")
            result = await client.call(episode, "lend_book", book_id="B-1", reader_id="R-1")
            await client.seal(episode)
            header, changes, rows = await client.evidence(episode, "loans")
            await client.close(episode)

Settings are keyword arguments named as in env_server.settings: `max_episodes=2`. `client.stub` and
`client.infra` or `client.grader` (metadata) give every rpc:
`await client.stub.GetCapacity(pb.GetCapacityRequest(), metadata=client.infra)`.
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from envfarm.errors import DatabaseError, from_rpc
from envfarm.v1 import env_service_pb2 as pb
from envfarm.v1 import episode_pb2, evidence_pb2
from envfarm.v1.env_service_pb2_grpc import EnvServiceStub
from envfarm_common.grpc import connect

SHELF = Path(__file__).parent / "worlds"
"""A domains folder with one tiny world, shelf."""
START_SECONDS = 60.0


@dataclass
class EnvServer:
    """Addresses and tokens of a running env-server; `process` is its subprocess."""

    process: subprocess.Popen[bytes]
    log_file: Path
    infra_token: str
    grader_token: str
    http: str = ""
    grpc: str = ""

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator["EnvClient"]:
        channel, infra = connect(self.grpc, self.infra_token)
        _, grader = connect(self.grpc, self.grader_token)
        async with channel:
            yield EnvClient(EnvServiceStub(channel), infra, grader)

    def stop(self, seconds: float = 30.0) -> int:
        """SIGTERM, wait, and answer the exit status; SIGKILL when it does not end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def log(self) -> str:
        return self.log_file.read_text(errors="replace")


class EnvClient:
    """The rpcs as plain async functions; errors arrive as envfarm.errors classes."""

    def __init__(self, stub: Any, infra: list[tuple[str, str]], grader: list[tuple[str, str]]):
        self.stub, self.infra, self.grader = stub, infra, grader
        self.opened: list[str] = []

    async def open(self, task_id: str, **fields: Any) -> episode_pb2.Episode:
        fields.setdefault("request_id", secrets.token_hex(8))
        request = pb.OpenEpisodeRequest(task_id=task_id, **fields)
        answer = await self._ask(self.stub.OpenEpisode, request, self.infra)
        self.opened.append(answer.episode.episode_id)
        return answer.episode

    async def call(
        self, episode: Any, tool: str, *, request_id: str = "", **arguments: Any
    ) -> episode_pb2.ToolResult:
        return await self.call_raw(episode, tool, json.dumps(arguments), request_id=request_id)

    async def call_raw(
        self, episode: Any, tool: str, arguments_json: str, *, request_id: str = ""
    ) -> episode_pb2.ToolResult:
        request = pb.CallToolRequest(
            episode_id=_id(episode),
            request_id=request_id or secrets.token_hex(8),
            tool=tool,
            arguments_json=arguments_json,
        )
        return (await self._ask(self.stub.CallTool, request, self.infra)).result

    async def renew(self, *episodes: Any) -> list[str]:
        request = pb.RenewLeaseRequest(episode_ids=[_id(item) for item in episodes])
        return list((await self._ask(self.stub.RenewLease, request, self.infra)).gone)

    async def seal(self, episode: Any) -> pb.SealEpisodeResponse:
        request = pb.SealEpisodeRequest(episode_id=_id(episode))
        return await self._ask(self.stub.SealEpisode, request, self.infra)

    async def close(self, episode: Any) -> int:
        request = pb.CloseEpisodeRequest(episode_id=_id(episode))
        return (await self._ask(self.stub.CloseEpisode, request, self.infra)).state

    async def capacity(self) -> pb.GetCapacityResponse:
        return await self._ask(self.stub.GetCapacity, pb.GetCapacityRequest(), self.infra)

    async def chunks(self, episode: Any, *tables: str) -> list[evidence_pb2.EvidenceChunk]:
        request = pb.ReadEvidenceRequest(episode_id=_id(episode), whole_tables=tables)
        try:
            return [c async for c in self.stub.ReadEvidence(request, metadata=self.grader)]
        except grpc.RpcError as error:
            raise from_rpc(error, DatabaseError) from error

    async def evidence(
        self, episode: Any, *tables: str
    ) -> tuple[evidence_pb2.EvidenceHeader, list[evidence_pb2.RowChange], dict[str, list[Any]]]:
        """Header, changes, and the whole rows of the tables that were asked for."""
        chunks = await self.chunks(episode, *tables)
        changes = [change for chunk in chunks for change in chunk.changes.changes]
        rows: dict[str, list[Any]] = {}
        for chunk in chunks:
            if chunk.WhichOneof("part") == "rows":
                found = rows.setdefault(chunk.rows.table, [])
                found += [json.loads(row) for row in chunk.rows.rows_json]
        return chunks[0].header, changes, rows

    async def query(self, episode: Any, query: str, max_rows: int = 0) -> list[dict[str, Any]]:
        request = pb.RunReadOnlyRequest(episode_id=_id(episode), query=query, max_rows=max_rows)
        answer = await self._ask(self.stub.RunReadOnly, request, self.grader)
        return [json.loads(row) for row in answer.rows_json]

    async def _ask(self, method: Any, request: Any, metadata: Any) -> Any:
        try:
            return await method(request, metadata=metadata, timeout=60)
        except grpc.RpcError as error:
            raise from_rpc(error, DatabaseError) from error


def _id(episode: Any) -> str:
    return episode if isinstance(episode, str) else episode.episode_id


def start_env_server(
    domains_dir: Path, folder: Path, *, wait: bool = True, **settings: Any
) -> EnvServer:
    """Start one with files in `folder`; the caller stops it. `wait=False` returns at once."""
    values = {
        "domains_dir": domains_dir,
        "infra_token": secrets.token_urlsafe(24),
        "grader_token": secrets.token_urlsafe(24),
        "state_dir": folder / "state",
        "ready_file": folder / "ready.json",
        **settings,
    }
    (folder / "ready.json").unlink(missing_ok=True)
    env = {"PATH": os.environ["PATH"]}
    env |= {f"ENV_SERVER_{k}".upper(): str(v) for k, v in values.items() if v is not None}
    log_file = folder / "log.jsonl"
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "env_server"], env=env, stderr=log, stdout=log
        )
    server = EnvServer(process, log_file, str(values["infra_token"]), str(values["grader_token"]))
    if wait:
        wait_until_ready(server, folder)
    return server


def wait_until_ready(server: EnvServer, folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not (folder / "ready.json").exists():
        if server.process.poll() is not None or time.monotonic() > deadline:
            server.process.kill()
            server.process.wait()
            raise AssertionError(f"the env-server did not start:\n{server.log()[-4000:]}")
        time.sleep(0.02)
    facts = json.loads((folder / "ready.json").read_text())
    server.http, server.grpc = facts["http"], facts["grpc"]


@contextlib.contextmanager
def running_env_server(
    domains_dir: Path = SHELF, folder: Path | None = None, **settings: Any
) -> Iterator[EnvServer]:
    """Start one and stop it at the end."""
    with contextlib.ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        # The account that Postgres runs under must reach a state folder on disk.
        place.chmod(0o755)
        server = start_env_server(domains_dir, place, **settings)
        try:
            yield server
        finally:
            server.stop()
