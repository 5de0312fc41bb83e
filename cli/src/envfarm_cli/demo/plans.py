"""What the demonstrations say: golden runs and the near misses of a domain's private half."""

import random
from pathlib import Path
from typing import Any

from envfarm_cli.domain_files import TaskFiles, find_tasks, read_yaml
from envfarm_cli.failure import BadInput
from envfarm_cli.script_file import tool_call

Plan = list[str]
"""Texts of one attempt: tool calls, then the reply."""


def demonstration_plans(
    domains: Path, domain: str, per_task: int, seed: int
) -> dict[str, dict[str, Any]]:
    """{task id: {opening, plans}} of the training tasks; slot s of a group plays plan s.

    Every other plan is golden and the rest are near misses, so that the form is learned and the
    decisions are not.
    """
    rng = random.Random(seed)
    found = {}
    for files in find_tasks(domains, domain):
        public = read_yaml(files.public)
        if (public.get("tags") or {}).get("split") == "train":
            golden, misses = _plans(files)
            plans = [
                golden if slot % 2 == 0 or not misses else rng.choice(misses)
                for slot in range(per_task)
            ]
            found[files.task_id] = {"opening": str(public["opening"]).strip(), "plans": plans}
    if not found:
        raise BadInput(f"{domain} has no training tasks", hint="see `envfarm tasks list`")
    return found


def corpus(plans: dict[str, dict[str, Any]], policy: str) -> str:
    """What the tokenizer is trained on: the domain's own text, without the chat's marks."""
    lines = [policy]
    for task in plans.values():
        lines.append(task["opening"])
        for plan in task["plans"]:
            lines += plan
    text = "\n".join(lines)
    for mark in ("<tool_call>", "</tool_call>"):
        text = text.replace(mark, "")
    return text


def _plans(files: TaskFiles) -> tuple[Plan, list[Plan]]:
    private = read_yaml(files.private)
    try:
        golden = private["golden"]
        reply = golden["reply"].strip()
        misses = [
            [*_calls(miss.get("actions", [])), str(miss.get("reply", reply)).strip()]
            for miss in private.get("near_misses", [])
        ]
        return [*_calls(golden["actions"]), reply], misses
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{files.private}: no plan can be read from it: {error}",
            hint=f"run `envfarm tasks validate {files.task_id}`",
        ) from error


def _calls(actions: list[dict[str, Any]]) -> list[str]:
    return [tool_call(action["tool"], action["arguments"]) for action in actions]
