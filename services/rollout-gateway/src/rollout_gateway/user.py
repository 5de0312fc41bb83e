"""The simulated user, played from a script: domains/<domain>/user/<slug>.yaml.

    task: orders/refund-damaged
    context: what the user knows                (for a user played by a model)
    script:  [{when: <regex on the assistant's last text>, say: <text>}, …]
    end_after: <regex that ends the conversation>

Lines are tried in order, each is said at most once; when none fits the user leaves.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from envfarm.errors import ConfigError, UserModelError


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    when: re.Pattern[str]
    say: str


@dataclass(frozen=True, kw_only=True, slots=True)
class UserScript:
    task_id: str
    lines: tuple[Line, ...]
    end_after: re.Pattern[str] | None


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
        for index, line in enumerate(self._script.lines):
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
            script = _load(path)
            expected = f"{path.parts[-3]}/{path.stem}"
            if script.task_id != expected:
                raise ConfigError(
                    f"{path}: task is {script.task_id!r}, its place says {expected!r}"
                )
            self._scripts[script.task_id] = script

    def user(self, task_id: str) -> ScriptedUser:
        """A fresh user for one attempt; UserModelError when the task has no script."""
        script = self._scripts.get(task_id)
        if script is None:
            raise UserModelError(f"there is no user script for {task_id}")
        return ScriptedUser(script)


def _load(path: Path) -> UserScript:
    try:
        node = yaml.compose(path.read_text(), yaml.SafeLoader)
        value: Any = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigError(f"{path}{line}: {problem}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    lines = _key_lines(node)
    if not isinstance(value, dict):
        raise ConfigError(f"{path}:1: a mapping is expected")
    for key in value:
        if key not in ("task", "context", "script", "end_after"):
            raise ConfigError(f"{path}:{lines.get(str(key), 1)}: unknown key {key!r}")
    if not isinstance(value.get("task"), str):
        raise ConfigError(f"{path}:{lines.get('task', 1)}: task must be a text")
    script = value.get("script") or []
    where = f"{path}:{lines.get('script', 1)}"
    if not isinstance(script, list):
        raise ConfigError(f"{where}: script must be a list")
    end = value.get("end_after")
    return UserScript(
        task_id=value["task"],
        lines=tuple(_line(entry, f"{where}: entry {n}") for n, entry in enumerate(script, 1)),
        end_after=None if end is None else _regex(end, f"{path}:{lines.get('end_after', 1)}"),
    )


def _line(entry: Any, where: str) -> Line:
    if not isinstance(entry, Mapping) or entry.keys() != {"when", "say"}:
        raise ConfigError(f"{where}: needs exactly `when` and `say`")
    if not isinstance(entry["say"], str):
        raise ConfigError(f"{where}: say must be a text")
    return Line(when=_regex(entry["when"], where), say=entry["say"])


def _regex(pattern: Any, where: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ConfigError(f"{where}: {pattern!r} is no regular expression: {error}") from error


def _key_lines(node: yaml.Node | None) -> dict[str, int]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {str(key.value): key.start_mark.line + 1 for key, _ in node.value}
