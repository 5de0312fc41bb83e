"""The script of the scripted policy, made on the operator's side from the domains' golden actions."""

import json
from pathlib import Path
from typing import Any

from envfarm.canonical import canonical_json

from envfarm_cli.domain_files import find_tasks, read_yaml
from envfarm_cli.failure import BadInput

LAZY_REPLY = "It is all done. Is there anything else?"
"""What an agent says that did nothing."""


def write_script(path: Path, domains: Path) -> Path:
    """A golden and a lazy plan for every task: even slots do it right, odd ones do nothing."""
    tasks = {}
    for files in find_tasks(domains):
        private = read_yaml(files.private)
        try:
            golden = private["golden"]
            turns = [tool_call(action["tool"], action["arguments"]) for action in golden["actions"]]
            reply = golden["reply"].strip()
            opening = read_yaml(files.public)["opening"].strip()
        except (KeyError, TypeError, AttributeError) as error:
            raise BadInput(
                f"{files.private}: no golden run can be read from it: {error}",
                hint=f"run `envfarm tasks validate {files.task_id}`",
            ) from error
        tasks[files.task_id] = {"opening": opening, "plans": [[*turns, reply], [LAZY_REPLY]]}
    return write_plans(path, tasks)


def write_plans(path: Path, tasks: dict[str, dict[str, Any]]) -> Path:
    """Write `{tasks: {id: {opening, plans: [[text]]}}}`, readable for us alone."""
    path.touch(mode=0o600)
    path.write_text(json.dumps({"tasks": tasks}, indent=1, ensure_ascii=False))
    return path


def tool_call(name: str, arguments: dict[str, Any]) -> str:
    """One assistant turn that calls a tool, in the chat format's own marks."""
    body = canonical_json({"arguments": arguments, "name": name})
    return f"<tool_call>\n{body}\n</tool_call>"
