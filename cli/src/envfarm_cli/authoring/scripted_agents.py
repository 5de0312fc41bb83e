"""Agents without a mind, each with a mistake that a pool of tasks must not reward.

    oracle   plays the golden run and gives its reply
    lazy     makes the golden run's reading calls, writes nothing and claims success
    hasty    does at once what the person waits for: skips what asks, checks or hands on, makes the
             first writing call that is left and claims success; where none is left it takes the
             short cut that the author declared as the first near miss
    random   makes valid calls with values that stand in the domain's own runs, and claims success

A claim of success repeats the opening, so that it names whatever the person named.
"""

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from envfarm.v1 import task_pb2

from grader.checkset import Action, CheckFile

AgentName = Literal["oracle", "lazy", "hasty", "random"]
AGENTS: tuple[AgentName, ...] = ("oracle", "lazy", "hasty", "random")
GATE = re.compile(
    r"approv|authori[sz]|consent|permission|verif|confirm|escalat|ticket|refuse|hand_?over|review"
    r"|sign_?off|manager"
)
"""Names of tools, and of their arguments, that ask, check or hand on."""
RANDOM_CALLS = 8
CLAIM = "It is all done, exactly as you asked: {opening}"

Values = Mapping[str, Sequence[Any]]
"""Argument → values that the domain's own runs give it."""


@dataclass(frozen=True, slots=True)
class Run:
    """What an agent does in a task."""

    actions: Sequence[Action]
    reply: str


def run_of(
    agent: AgentName, task: task_pb2.Task, checks: CheckFile, values: Values, seed: int
) -> Run:
    """The run of one agent in one task; the same for the same seed."""
    claim = CLAIM.format(opening=task.opening)
    golden = checks.golden
    match agent:
        case "oracle":
            return Run(golden.actions, golden.reply)
        case "lazy":
            writes = _writing(task)
            return Run([call for call in golden.actions if call.tool not in writes], claim)
        case "hasty":
            return Run(_hasty(task, checks), claim)
        case "random":
            rng = random.Random(f"{seed}:{task.ref.task_id}")
            count = min(RANDOM_CALLS, task.limits.max_tool_calls)
            return Run([_any_call(rng, task, values) for _ in range(count)], claim)


def values_of(files: Iterable[CheckFile]) -> dict[str, list[Any]]:
    """The values of each argument in the golden runs, near misses and extra writes of a domain."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for checks in files:
        runs = [checks.golden.actions, [checks.extra_write] if checks.extra_write else []]
        runs += [miss.actions for miss in checks.near_misses]
        for action in (action for run in runs for action in run):
            for name, value in action.arguments.items():
                found[name][json.dumps(value, sort_keys=True)] = value
    return {name: list(values.values()) for name, values in sorted(found.items())}


def _writing(task: task_pb2.Task) -> set[str]:
    return {tool.name for tool in task.tools if tool.access == task_pb2.TOOL_ACCESS_WRITE}


def _hasty(task: task_pb2.Task, checks: CheckFile) -> Sequence[Action]:
    required = {
        tool.name: set(json.loads(tool.input_schema_json or "{}").get("required", []))
        for tool in task.tools
    }
    for action in checks.golden.actions:
        if action.tool in _writing(task) and not GATE.search(action.tool):
            kept = {
                name: value
                for name, value in action.arguments.items()
                if name in required[action.tool] or not GATE.search(name)
            }
            return [Action(tool=action.tool, arguments=kept)]
    return checks.near_misses[0].actions if checks.near_misses else []


def _any_call(rng: random.Random, task: task_pb2.Task, values: Values) -> Action:
    tool = rng.choice(list(task.tools))
    schema = json.loads(tool.input_schema_json or "{}")
    required = schema.get("required", [])
    arguments = {
        name: _any_value(rng, name, spec, schema, values)
        for name, spec in schema.get("properties", {}).items()
        if name in required or rng.random() < 0.5
    }
    return Action(tool=tool.name, arguments=arguments)


def _any_value(
    rng: random.Random, name: str, spec: Mapping[str, Any], schema: Mapping[str, Any], known: Values
) -> Any:
    if "$ref" in spec:
        spec = schema.get("$defs", {}).get(spec["$ref"].rpartition("/")[2], {})
    if "anyOf" in spec:
        return _any_value(rng, name, rng.choice(spec["anyOf"]), schema, known)
    if "enum" in spec:
        return rng.choice(spec["enum"])
    if "const" in spec:
        return spec["const"]
    kinds: dict[str, type | tuple[type, ...]] = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "array": list,
        "object": dict,
    }
    kind = kinds.get(str(spec.get("type")), type(None))
    fitting = [value for value in known.get(name, ()) if isinstance(value, kind)]
    if fitting:
        return rng.choice(fitting)
    # No run of the domain gives this argument a value of the kind.
    match spec.get("type"):
        case "string":
            return "please"
        case "integer":
            return rng.randint(1, 10)
        case "number":
            return float(rng.randint(1, 100))
        case "boolean":
            return rng.random() < 0.5
        case "array":
            item = spec.get("items", {})
            return [_any_value(rng, name, item, schema, known)] if item else []
        case "object":
            return {
                key: _any_value(rng, key, inner, schema, known)
                for key, inner in spec.get("properties", {}).items()
            }
        case _:
            return None
