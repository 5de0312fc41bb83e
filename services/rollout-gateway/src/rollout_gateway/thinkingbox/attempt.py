"""An attempt at an imported task, by the rules of the harness that it comes from.

ends     a text that ends with <DONE>; a call of an end-of-turn tool, which is not made, nor are the
         calls beside it; the user has answered as often as may be; there is no user
counted  every message to the user and every message with calls, against max_agent_sim_turns
shown    tools as the task overrides them, the harness's own tools before them
graded   with the whole conversation, however it ended
"""

from envfarm.canonical import canonical_json
from envfarm.errors import ConfigError
from envfarm.v1 import task_pb2, trajectory_pb2

from rollout_gateway.chat.calls import MalformedCall
from rollout_gateway.chat.formats import ToolLine
from rollout_gateway.chat.parse import Reply
from rollout_gateway.chat_dialogue import ChatDialogue
from rollout_gateway.conversation import turn_as_json
from rollout_gateway.environment import LiveEpisode
from rollout_gateway.rollout import Attempt, Order, Parts, Waiting
from rollout_gateway.thinkingbox.messages import is_done, messages, told_directly
from rollout_gateway.thinkingbox.simulated_user import UserWithLimit
from rollout_gateway.thinkingbox.talk_file import TalkFile
from rollout_gateway.user import User

S = trajectory_pb2.RolloutStatus
Kind = trajectory_pb2.TurnKind
DIRECT_FAILED = "Error in function execution"
"""What a model is told of an answer that does not fit the tool's direct response."""


class ImportedAttempt(Attempt):
    def __init__(self, parts: Parts, order: Order, waiting: Waiting, talk: TalkFile):
        self._talk = talk
        self._actions = 0
        super().__init__(parts, order, waiting)

    def _offered(self) -> list[ToolLine]:
        return self._talk.shown(super()._offered())

    def _made_user(self, task: task_pb2.Task, seed: str) -> User:
        talk = self._talk
        if talk.history:
            raise ConfigError(f"{task.ref.task_id} begins with a history, which is not played")
        if talk.direct and not isinstance(self._dialogue, ChatDialogue):
            raise ConfigError(
                f"{task.ref.task_id} has direct responses, which only chat endpoints are told"
            )
        return self._parts.users.imported(task.ref.task_id, talk, seed)

    def _words(self) -> str:
        turns = [turn_as_json(turn) for turn in self._turns]
        return canonical_json(messages(turns, self._talk.end_turn, self._talk.direct))

    async def _turn(self, episode: LiveEpisode, user: User) -> trajectory_pb2.RolloutStatus | None:
        talk = self._talk
        if (
            self._actions >= talk.max_agent_sim_turns
            or self._counts.turns >= self._limits.max_turns
        ):
            return S.ROLLOUT_STATUS_TRUNCATED_TURNS
        said = await self._spoken()
        reply = said.reply
        if said.cut:
            return S.ROLLOUT_STATUS_TRUNCATED_TOKENS
        if reply.text or not reply.calls:
            self._final_reply = reply.text
            self._actions += 1
        if reply.calls:
            return await self._with_calls(episode, user, reply)
        if is_done(reply.text):
            return S.ROLLOUT_STATUS_COMPLETED
        with self._at("user"):
            answer = await user.answer(reply.text)
        if answer is None:
            return S.ROLLOUT_STATUS_COMPLETED
        return self._observe(Kind.TURN_KIND_USER, answer, self._dialogue.user(answer))

    async def _with_calls(
        self, episode: LiveEpisode, user: User, reply: Reply
    ) -> trajectory_pb2.RolloutStatus | None:
        talk, turn = self._talk, self._turns[-1]
        if any(call.name in talk.end_turn for call in reply.calls):
            for call in reply.calls:
                written = call.raw if isinstance(call, MalformedCall) else call.arguments_json
                turn.calls.add(name=call.name, arguments_json=written)
            return S.ROLLOUT_STATUS_COMPLETED
        if self._actions >= talk.max_agent_sim_turns:
            return S.ROLLOUT_STATUS_TRUNCATED_TURNS
        self._actions += 1
        said: str | None = None
        for call in reply.calls:
            if not await self._call(episode, call, turn):
                return S.ROLLOUT_STATUS_TRUNCATED_CALLS
            made, pattern = turn.calls[-1], talk.direct.get(call.name)
            said = None if pattern is None else told_directly(pattern, made.content)
            if pattern is not None and said is None:
                made.content = DIRECT_FAILED
        contents = [record.content for record in turn.calls]
        placed = self._dialogue.tool_results(contents)
        ended = self._observe(Kind.TURN_KIND_TOOL, "\n".join(contents), placed)
        if isinstance(user, UserWithLimit):
            for text in (reply.text, said):
                if text:
                    user.hear(text)
        if said is not None and isinstance(self._dialogue, ChatDialogue):
            self._dialogue.told(said)
        return ended

    def _unknown(self, name: str) -> str:
        return f"Error: function '{name}' does not exist"


def attempt_of(parts: Parts, order: Order, waiting: Waiting) -> Attempt:
    """An attempt by the rules that its task wants."""
    talk = parts.users.talk(order.task.ref.task_id)
    if talk is None:
        return Attempt(parts, order, waiting)
    return ImportedAttempt(parts, order, waiting, talk)
