"""The simulated user of a task: domains/<domain>/user/<slug>.yaml.

    task: orders/refund-damaged
    context: what the user knows                (for a user played by a model)
    script:  [{when: <regex on the assistant's last text>, say: <text>}, …]
    end_after: <regex that ends the conversation>

The gateway plays all users in one way: from their scripts (lines are tried in order, each is said at
most once; when none fits the user leaves), by a model that knows the context, or not at all (the user
leaves after the first answer).
"""

import re
import zlib
from pathlib import Path
from typing import Literal, Protocol

from envfarm.errors import ConfigError
from envfarm_common import strict_yaml
from pydantic import BaseModel, ConfigDict

from rollout_gateway.thinkingbox.simulated_user import TranscriptUser, UserWithLimit
from rollout_gateway.thinkingbox.talk_file import TalkFile, read_talks
from rollout_gateway.user_model import ModelUser, UserModel

Player = Literal["script", "model", "none"]


class _Strict(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


class Line(_Strict):
    """Something that a scripted user says, once."""

    when: re.Pattern[str]
    """Searched in the assistant's last text."""
    say: str


class UserScript(_Strict):
    """The person of one task: what they know and say."""

    task: str
    """Id of the task."""
    context: str = ""
    """What the person knows, wants and accepts, for a model that plays them."""
    script: list[Line] = []
    """What they say without a model: of the lines that were not used yet the first that fits."""
    end_after: re.Pattern[str] | None = None
    """An assistant's text that fits this ends the conversation; it also ends when no line fits."""


class User(Protocol):
    """One conversation's user."""

    @property
    def tokens(self) -> int:
        """Of a model, in and out so far."""
        ...

    async def answer(self, text: str) -> str | None:
        """What the user says to the assistant's `text`; None when the user leaves."""
        ...


class SilentUser:
    """Said all that there is to say at the beginning."""

    tokens = 0

    async def answer(self, text: str) -> str | None:
        return None


class ScriptedUser:
    tokens = 0

    def __init__(self, script: UserScript):
        self._script = script
        self._said: set[int] = set()

    async def answer(self, text: str) -> str | None:
        end = self._script.end_after
        if end is not None and end.search(text):
            return None
        for index, line in enumerate(self._script.script):
            if index not in self._said and line.when.search(text):
                self._said.add(index)
                return line.say
        return None


class Users:
    """All scripts of a domains folder; ConfigError names the file and line that is wrong."""

    def __init__(
        self, domains_dir: Path, player: Player = "script", model: UserModel | None = None
    ):
        """`model` plays the users when `player` is "model"."""
        self._player, self._model = player, model
        if not domains_dir.is_dir():
            raise ConfigError(f"{domains_dir} is not a folder", hint="set GATEWAY_DOMAINS_DIR")
        self._scripts: dict[str, UserScript] = {}
        for path in sorted(domains_dir.glob("*/user/*.yaml")):
            script = strict_yaml.load(path, UserScript)
            expected = f"{path.parts[-3]}/{path.stem}"
            if script.task != expected:
                raise ConfigError(f"{path}: task is {script.task!r}, its place says {expected!r}")
            self._scripts[script.task] = script

        self._talks = read_talks(domains_dir)

    def talk(self, task_id: str) -> TalkFile | None:
        """How an imported task is talked about; None for tasks of our own."""
        return self._talks.get(task_id)

    def imported(self, task_id: str, talk: TalkFile, seed: str) -> User:
        """A fresh user of an imported task, who answers as often as its dataset says; without a
        context, or a model or script to play it, there is none."""
        user: User = SilentUser()
        script = self._scripts.get(task_id)
        if self._player == "model" and self._model is not None and talk.user_context:
            number = zlib.crc32(seed.encode())
            user = TranscriptUser(self._model, talk.user_context, talk.query, number)
        elif self._player == "script" and script is not None:
            user = ScriptedUser(script)
        return UserWithLimit(user, talk.max_user_sim_turns)

    async def close(self) -> None:
        if self._model is not None:
            await self._model.close()

    def user(self, task_id: str, opening: str = "", seed: str = "") -> User:
        """A fresh user for one attempt; ConfigError when nobody wrote down who it is.

        The same `seed` makes a model's user say the same, as far as the model keeps to it.
        """
        if self._player == "none":
            return SilentUser()
        script = self._scripts.get(task_id)
        if script is None:
            raise ConfigError(
                f"there is no user for {task_id}", hint="write domains/<domain>/user/<slug>.yaml"
            )
        if self._player == "script" or self._model is None:
            return ScriptedUser(script)
        if not script.context.strip():
            raise ConfigError(f"the user of {task_id} has no context for a model to play")
        return ModelUser(self._model, script.context, opening, zlib.crc32(seed.encode()))
