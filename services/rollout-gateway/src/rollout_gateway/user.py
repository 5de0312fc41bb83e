"""The simulated user, played from a script: domains/<domain>/user/<slug>.yaml.

    task: orders/refund-damaged
    context: what the user knows                (for a user played by a model)
    script:  [{when: <regex on the assistant's last text>, say: <text>}, …]
    end_after: <regex that ends the conversation>

Lines are tried in order, each is said at most once; when none fits the user leaves.
"""

import re
from pathlib import Path

from envfarm.errors import ConfigError, UserModelError
from envfarm_common import strict_yaml
from pydantic import BaseModel, ConfigDict


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Line(_Strict):
    when: re.Pattern[str]
    say: str


class UserScript(_Strict):
    """One file, as it stands."""

    task: str
    context: str = ""
    script: list[Line] = []
    end_after: re.Pattern[str] | None = None


class ScriptedUser:
    """One conversation's user."""

    def __init__(self, script: UserScript):
        self._script = script
        self._said: set[int] = set()

    def answer(self, text: str) -> str | None:
        """What the user says to the assistant's `text`; None when the user leaves."""
        end = self._script.end_after
        if end is not None and end.search(text):
            return None
        for index, line in enumerate(self._script.script):
            if index not in self._said and line.when.search(text):
                self._said.add(index)
                return line.say
        return None


class UserScripts:
    """All scripts of a domains folder; ConfigError names the file and line that is wrong."""

    def __init__(self, domains_dir: Path):
        if not domains_dir.is_dir():
            raise ConfigError(f"{domains_dir} is not a folder", hint="set GATEWAY_DOMAINS_DIR")
        self._scripts: dict[str, UserScript] = {}
        for path in sorted(domains_dir.glob("*/user/*.yaml")):
            script = strict_yaml.load(path, UserScript)
            expected = f"{path.parts[-3]}/{path.stem}"
            if script.task != expected:
                raise ConfigError(f"{path}: task is {script.task!r}, its place says {expected!r}")
            self._scripts[script.task] = script

    def user(self, task_id: str) -> ScriptedUser:
        """A fresh user for one attempt; UserModelError when the task has no script."""
        script = self._scripts.get(task_id)
        if script is None:
            raise UserModelError(f"there is no user script for {task_id}")
        return ScriptedUser(script)
