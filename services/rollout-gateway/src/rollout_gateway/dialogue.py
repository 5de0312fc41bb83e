"""One attempt's conversation with its policy, whatever the policy reads: token ids or messages.

`TokenDialogue` here speaks to our engines. `chat_dialogue.py` speaks to a chat endpoint. An attempt
uses either in the same way, so limits, tools, users and grading are the same for both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from envfarm.errors import PromptTooLong
from envfarm.sampling import Sampling
from envfarm.v1 import task_pb2, trajectory_pb2

from rollout_gateway.chat.formats import ToolLine
from rollout_gateway.chat.parse import Reply
from rollout_gateway.chat.render import Renderer
from rollout_gateway.policy import Policy
from rollout_gateway.tokens import TokenStream

Place = tuple[int, int]
"""(start, length) of a turn in the token stream; (0, 0) where there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """One generation."""

    reply: Reply
    cut: bool
    """A limit of tokens ended it."""
    place: Place
    tokens: int
    """That the policy sampled."""


class Dialogue(Protocol):
    sampled_tokens: int
    """So far."""

    def begin(self, policy_text: str, opening: str) -> tuple[Place, Place]:
        """The system's and the user's first message. Raises PromptTooLong."""
        ...

    def user(self, text: str) -> Place | None:
        """What the user says next; None when a further turn would not fit."""
        ...

    def tool_results(self, contents: Sequence[str]) -> Place | None:
        """The results of all calls of the last turn, in their order; None as above."""
        ...

    async def generate(self, number: int) -> Said:
        """The policy's turn `number`, from 0. Raises PolicyError."""
        ...

    def write_to(self, trajectory: trajectory_pb2.Trajectory) -> None: ...


class TokenDialogue:
    """With our engines: history is never tokenised again."""

    def __init__(
        self,
        policy: Policy,
        renderer: Renderer,
        sampling: Sampling,
        task: task_pb2.Task,
        tools: Sequence[ToolLine],
        rollout_id: str,
    ):
        self._policy, self._renderer, self._sampling = policy, renderer, sampling
        self._task, self._tools, self._rollout_id = task, tools, rollout_id
        self._schemas = {tool.name: tool.schema for tool in tools}
        self._stream = TokenStream()
        self._shown: list[Place] = []
        """Sampled turns whose reasoning the policy still reads."""
        self.sampled_tokens = 0

    def begin(self, policy_text: str, opening: str) -> tuple[Place, Place]:
        renderer, stream = self._renderer, self._stream
        system = stream.give(renderer.system(policy_text, self._tools))
        user = stream.give(renderer.user(opening))
        if self._room(renderer.open_assistant()) < 1:
            raise PromptTooLong(
                f"the prompt of {self._task.ref.task_id} has {len(stream)} tokens, "
                f"the limit is {self._max_total()}",
                hint="raise max_total_tokens of the task or the engines' --max-model-len",
            )
        return system, user

    def user(self, text: str) -> Place | None:
        if self._renderer.reasoning == "strip":
            self._hide_reasoning()
        return self._give(self._renderer.user(text))

    def tool_results(self, contents: Sequence[str]) -> Place | None:
        return self._give(self._renderer.tool_results(contents))

    async def generate(self, number: int) -> Said:
        renderer, stream = self._renderer, self._stream
        opening = renderer.open_assistant()
        room = min(self._task.limits.max_turn_tokens, self._room(opening))
        stream.give(opening)
        sampled = await self._policy.generate(
            stream.context(),
            request_id=f"{self._rollout_id}.t{number}",
            sticky=self._rollout_id,
            max_tokens=room,
        )
        place = stream.sample(sampled.ids, sampled.logprobs, sampled.versions)
        stream.give(renderer.close_assistant(sampled.ids[-1]))
        self._shown.append(place)
        self.sampled_tokens += place[1]
        reply = renderer.read(sampled.ids, self._schemas)
        return Said(reply=reply, cut=sampled.cut, place=place, tokens=place[1])

    def write_to(self, trajectory: trajectory_pb2.Trajectory) -> None:
        trajectory.renderer_hash = self._renderer.hash
        trajectory.sampling_hash = self._sampling.hash
        self._stream.write_to(trajectory)

    def _hide_reasoning(self) -> None:
        """Once the user speaks again, the reasoning of earlier turns is not shown any more."""
        for start, length in self._shown:
            ids = self._stream.ids[start : start + length]
            self._stream.hide(start, self._renderer.reasoning_length(ids))
        self._shown.clear()

    def _give(self, ids: Sequence[int]) -> Place | None:
        if self._room([*ids, *self._renderer.open_assistant()]) < 1:
            return None
        return self._stream.give(ids)

    def _room(self, given: Sequence[int]) -> int:
        """Tokens that may be sampled after `given`; the two that close a turn are kept free."""
        return self._max_total() - len(self._stream) - len(given) - 2

    def _max_total(self) -> int:
        """The task's limit, or the engines' where that is lower."""
        limit = self._task.limits.max_total_tokens
        return min(limit, self._policy.max_length or limit)
