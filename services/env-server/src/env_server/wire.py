"""Domain objects as protobuf messages."""

import functools
from collections.abc import Iterable, Iterator, Sequence

from envfarm.v1 import env_service_pb2 as pb
from envfarm.v1 import episode_pb2, evidence_pb2, task_pb2

from env_server.episode import State
from env_server.evidence import Change, Evidence, pieces
from env_server.live import LiveEpisode
from env_server.server_file import ForeignTool
from env_server.toolkit import Access, Tool
from env_server.world import Task

PAGE_BYTES = 1 << 20
"""Of tasks in one answer; a task is some 13 KiB, most of it the policy and the tools."""
STATES = {
    State.OPENING: episode_pb2.EPISODE_STATE_OPENING,
    State.RUNNING: episode_pb2.EPISODE_STATE_RUNNING,
    State.SEALED: episode_pb2.EPISODE_STATE_SEALED,
    State.CLOSED: episode_pb2.EPISODE_STATE_CLOSED,
    State.FAILED: episode_pb2.EPISODE_STATE_FAILED,
}


def tool_spec(tool: Tool | ForeignTool) -> task_pb2.ToolSpec:
    is_read = tool.access is Access.READ
    return task_pb2.ToolSpec(
        name=tool.name,
        description=tool.description,
        input_schema_json=tool.schema_json,
        access=task_pb2.TOOL_ACCESS_READ if is_read else task_pb2.TOOL_ACCESS_WRITE,
    )


def task_ref(task: Task) -> task_pb2.TaskRef:
    return task_pb2.TaskRef(task_id=task.task_id, task_hash=task.task_hash)


def world_ref(task: Task) -> task_pb2.WorldRef:
    return task_pb2.WorldRef(world_id=task.world.world_id, world_hash=task.world.world_hash)


@functools.lru_cache(maxsize=4096)
def task_message(task: Task) -> task_pb2.Task:
    """Made once per task; it is as good as a constant."""
    return task_pb2.Task(
        ref=task_ref(task),
        world=world_ref(task),
        opening=task.opening,
        policy=task.world.policy,
        tools=[tool_spec(tool) for tool in task.world.offered.values()],
        limits=task_pb2.Limits(**task.limits.model_dump()),
        tags=dict(task.tags),
    )


def task_page(tasks: Iterable[Task], after: str) -> pb.ListTasksResponse:
    """The tasks after the id `after`, in id order, up to PAGE_BYTES and at least one."""
    page, left = pb.ListTasksResponse(), PAGE_BYTES
    for task in sorted(tasks, key=lambda task: task.task_id):
        if task.task_id <= after:
            continue
        message = task_message(task)
        left -= message.ByteSize()
        if left < 0 and page.tasks:
            page.next_page_token = page.tasks[-1].ref.task_id
            break
        page.tasks.append(message)
    return page


def episode_message(live: LiveEpisode, mcp_url: str, grpc_address: str) -> episode_pb2.Episode:
    return episode_pb2.Episode(
        episode_id=live.episode_id,
        task=task_message(live.task),
        initial_state_hash=live.initial_state_hash,
        agent_token=live.token,
        mcp_url=mcp_url,
        env_server=grpc_address,
        lease_seconds=live.lease_seconds,
        world_now=live.task.world.now.isoformat(),
        slot_mode=episode_pb2.SLOT_MODE_REUSE if live.slot.reuses else episode_pb2.SLOT_MODE_FRESH,
    )


def evidence_header(live: LiveEpisode, found: Evidence) -> evidence_pb2.EvidenceHeader:
    return evidence_pb2.EvidenceHeader(
        episode_id=live.episode_id,
        task=task_ref(live.task),
        world=world_ref(live.task),
        initial_state_hash=found.initial_state_hash,
        final_state_hash=found.final_state_hash,
        source=evidence_pb2.EVIDENCE_SOURCE_JOURNAL
        if found.from_journal
        else evidence_pb2.EVIDENCE_SOURCE_WHOLE_TABLES,
        tables=[
            evidence_pb2.TableDigest(
                table=digest.table.name,
                rows=digest.rows,
                hash=digest.hash,
                key_columns=digest.table.key_columns,
                columns=digest.table.columns,
            )
            for digest in found.digests
        ],
    )


def change_chunks(changes: Sequence[Change]) -> Iterator[evidence_pb2.EvidenceChunk]:
    messages = [_change(change) for change in changes]
    for run in pieces(messages, lambda message: message.ByteSize()):
        yield evidence_pb2.EvidenceChunk(changes=evidence_pb2.RowChanges(changes=run))


def row_chunks(table: str, rows: Sequence[str]) -> Iterator[evidence_pb2.EvidenceChunk]:
    """At least one chunk, so that an empty table is told from one that was not asked for."""
    for run in pieces(rows, lambda row: len(row.encode())) if rows else [[]]:
        yield evidence_pb2.EvidenceChunk(rows=evidence_pb2.TableRows(table=table, rows_json=run))


def _change(change: Change) -> evidence_pb2.RowChange:
    if change.before is None:
        op = evidence_pb2.ROW_OP_INSERT
    elif change.after is None:
        op = evidence_pb2.ROW_OP_DELETE
    else:
        op = evidence_pb2.ROW_OP_UPDATE
    return evidence_pb2.RowChange(
        table=change.table,
        key_json=change.key_json,
        op=op,
        before_json=change.before or "",
        after_json=change.after or "",
    )
