"""What the scripted policy says in recorded demonstrations, and the text that a tokenizer learns.

A plan is the texts of one whole attempt: tool calls, then the reply. Plans come from the private
half of a domain's training tasks: its golden run and its near misses. A policy that only ever saw
golden runs has little left to learn by trying, so a share of the plans ends wrongly on purpose.
Held-out tasks are never read.
"""

import ast
import json
import random
import re
from pathlib import Path
from typing import Any

from envfarm.canonical import canonical_json

from env_server.world import World, load_world
from envfarm_cli.domain_files import TaskFiles, find_tasks, read_yaml
from envfarm_cli.failure import BadInput
from rollout_gateway.chat.formats import FORMATS, ToolLine

Plan = list[str]
TRAIN = "train"
RIGHT_SHARE = 0.5
"""Of the plans, how many are golden."""
CHAT_FORMAT = "compact"
CALL_MARKS = ("<tool_call>", "</tool_call>")


def demonstration_plans(
    domains: Path, domain: str, per_task: int, seed: int, right_share: float = RIGHT_SHARE
) -> dict[str, dict[str, Any]]:
    """{task id: {opening, plans}} of the training tasks; slot s of a group plays plan s.

    Of `per_task` plans per_task · right_share are golden, on average over the tasks; the others are
    the task's near misses in a seeded order, each as often as the next. BadInput without training
    tasks, or for a file that has no plan.
    """
    rng = random.Random(seed)
    found = {}
    for files in find_tasks(domains, domain):
        public = read_yaml(files.public)
        if (public.get("tags") or {}).get("split") != TRAIN:
            continue
        golden, misses = _plans(files)
        rng.shuffle(misses)
        right = int(per_task * right_share + rng.random())
        wrong = misses or [golden]
        plans = [golden] * right + [wrong[i % len(wrong)] for i in range(per_task - right)]
        rng.shuffle(plans)
        found[files.task_id] = {"opening": str(public["opening"]).strip(), "plans": plans}
    if not found:
        raise BadInput(f"{domain} has no training tasks", hint="see `envfarm tasks list`")
    return found


def domain_text(domains: Path, domain: str, plans: dict[str, dict[str, Any]]) -> str:
    """Everything that a conversation of the domain is written with, without the chat's marks.

    The system prompt as the gateway renders it, openings and turns of the plans, and the shapes of
    the tools' answers. BadInput when the world cannot be loaded.
    """
    world = load_world(domains / domain / "world")
    tools = [
        ToolLine(name=tool.name, description=tool.description, input_schema_json=tool.schema_json)
        for tool in world.offered.values()
    ]
    first, *others = (text for text, is_mark in FORMATS[CHAT_FORMAT].tools(tools) if not is_mark)
    pieces = [f"system\n{world.policy.strip()}{first}", *others, "assistant\n", "user\n"]
    pieces += [f"\n{answer}\n" for answer in _answers(world)]
    for task in plans.values():
        pieces.append(f"user\n{task['opening']}")
        pieces += [text for plan in task["plans"] for text in plan]
    # A digit is always a token of its own, so between two pieces it leaves no merge across them.
    text = "0".join(pieces)
    for mark in CALL_MARKS:
        text = text.replace(mark, "0")
    return text


def call_text(name: str, arguments: dict[str, Any]) -> str:
    """One assistant turn that calls a tool, in as few tokens as the parser takes."""
    body = json.dumps(
        {"name": name, "arguments": arguments}, separators=(",", ":"), ensure_ascii=False
    )
    return body.join(CALL_MARKS)


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
            hint=f"run `envfarm tasks validate --task {files.task_id}`",
        ) from error


def _calls(actions: list[dict[str, Any]]) -> list[str]:
    return [call_text(action["tool"], action.get("arguments", {})) for action in actions]


def _answers(world: World) -> list[str]:
    """Canonical JSON with the keys of each answer and the words that columns may hold."""
    words = re.findall(r"'([a-z_]+)'", world.schema_file.read_text())
    values = [{word: word, "done": True} for word in dict.fromkeys(words)]
    for node in ast.walk(ast.parse((world.folder / "tools.py").read_text())):
        if isinstance(node, ast.Dict):
            keys = [str(key.value) for key in node.keys if isinstance(key, ast.Constant)]
            values += [dict.fromkeys(keys, 0), dict.fromkeys(keys, "A")]
    return [canonical_json(value) for value in values]
