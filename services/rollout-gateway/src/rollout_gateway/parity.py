"""Whether recorded trajectories are what the renderer and the parser make of them today.

Each stored attempt is rendered and read again by the code that training, probing and evaluation use:
every given token must come out the same id, every sampled turn must read as the same calls,
arguments, text and reasoning. One difference means that two runs are not comparable.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from envfarm.v1 import group_pb2, task_pb2, trajectory_pb2

from rollout_gateway.chat.calls import MalformedCall
from rollout_gateway.chat.formats import ToolLine
from rollout_gateway.chat.parse import Reply
from rollout_gateway.chat.render import Renderer

Kind = trajectory_pb2.TurnKind
SHOWN_IDS = 12


@dataclass(frozen=True, slots=True)
class Difference:
    rollout_id: str
    turn: int
    what: str


def differences(
    rollout: group_pb2.Rollout, task: task_pb2.Task, renderer: Renderer
) -> list[Difference]:
    """Everything in which the record differs from what it would be today; empty when nothing."""
    trajectory = rollout.trajectory
    if not trajectory.turns:
        return []  # it ended before anything was said
    if trajectory.interface:
        return []  # a chat endpoint renders itself
    if trajectory.renderer_hash != renderer.hash:
        what = f"rendered as {trajectory.renderer_hash[:12]}…, here {renderer.hash[:12]}…"
        return [Difference(rollout.rollout_id, 0, what)]
    check = _Check(trajectory, task, renderer)
    return [Difference(rollout.rollout_id, turn, what) for turn, what in check.run()]


class _Check:
    def __init__(
        self, trajectory: trajectory_pb2.Trajectory, task: task_pb2.Task, renderer: Renderer
    ):
        self._ids, self._mask = list(trajectory.token_ids), trajectory.loss_mask
        self._turns, self._status = list(trajectory.turns), trajectory.status
        self._renderer, self._task = renderer, task
        self._tools = [
            ToolLine(name=t.name, description=t.description, input_schema_json=t.input_schema_json)
            for t in task.tools
        ]
        self._schemas = {tool.name: tool.schema for tool in self._tools}

    def run(self) -> Iterator[tuple[int, str]]:
        position = 0
        for index, turn in enumerate(self._turns):
            sampled = turn.kind == Kind.TURN_KIND_ASSISTANT
            given = self._renderer.open_assistant() if sampled else []
            yield from self._same(index, position, given, "opening")
            position += len(given)
            if turn.token_start != position:
                yield index, f"starts at token {turn.token_start}, expected at {position}"
                return
            end = position + turn.token_length
            if sampled:
                yield from self._reads_the_same(index, turn, self._ids[position:end])
                position = end
                given = self._renderer.close_assistant(self._ids[end - 1])
                yield from self._same(index, position, given, "end")
                position += len(given)
            else:
                yield from self._same(index, position, self._given(index, turn), "text")
                position = end
        # An attempt that failed in a generation had opened a turn already.
        rest = self._ids[position:]
        if rest and rest != self._renderer.open_assistant():
            yield len(self._turns), f"{len(rest)} tokens that belong to no turn"

    def _given(self, index: int, turn: trajectory_pb2.Turn) -> list[int]:
        match turn.kind:
            case Kind.TURN_KIND_SYSTEM:
                return self._renderer.system(self._task.policy, self._tools)
            case Kind.TURN_KIND_TOOL:
                calls = self._turns[index - 1].calls
                return self._renderer.tool_results([call.content for call in calls])
            case _:
                return self._renderer.user(turn.text)

    def _same(
        self, index: int, start: int, wanted: list[int], what: str
    ) -> Iterator[tuple[int, str]]:
        found = self._ids[start : start + len(wanted)]
        if found != wanted:
            at = next(
                (n for n, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b),
                min(len(found), len(wanted)),
            )
            near = slice(max(0, at - 2), at + SHOWN_IDS)
            yield (
                index,
                f"{what}: token {start + at} differs: {found[near]} on record, {wanted[near]} here",
            )
        elif any(self._mask[start : start + len(wanted)]):
            yield index, f"{what}: tokens that were given are marked as sampled"

    def _reads_the_same(
        self, index: int, turn: trajectory_pb2.Turn, ids: list[int]
    ) -> Iterator[tuple[int, str]]:
        mask = self._mask[turn.token_start : turn.token_start + turn.token_length]
        if mask != b"\x01" * turn.token_length:
            yield index, "tokens that were sampled are not marked so"
        reply = self._renderer.read(ids, self._schemas)
        for name, ours, theirs in (
            ("text", reply.text, turn.text),
            ("reasoning", reply.reasoning, turn.reasoning),
            ("calls in reasoning", reply.calls_in_reasoning, turn.calls_in_reasoning),
        ):
            if ours != theirs:
                yield index, f"{name}: {theirs!r} on record, {ours!r} here"
        yield from self._same_calls(index, turn, reply)

    def _same_calls(
        self, index: int, turn: trajectory_pb2.Turn, reply: Reply
    ) -> Iterator[tuple[int, str]]:
        made = [(call.name, call.arguments_json) for call in turn.calls]
        read = [
            (call.name, call.raw if isinstance(call, MalformedCall) else call.arguments_json)
            for call in reply.calls
        ]
        # The last turn may have been cut by a limit or a failure before all of its calls were made.
        last = index == len(self._turns) - 1
        if made != (read[: len(made)] if last else read):
            yield index, f"calls: {made} on record, {read} here"
