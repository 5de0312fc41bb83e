"""What a dataset's files say, as checked values."""

import sys
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue


class _Read(BaseModel):
    """Keys that we do not know are the dataset's own business, as they are upstream."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class BuiltinTool(_Read):
    """A tool that the harness itself plays."""

    name: str
    description: str = ""
    input_schema: dict[str, JsonValue] = {}
    direct_response: str | None = None
    is_end_turn: bool = False


class Agent(_Read):
    system_instructions: str
    builtin_tools: list[BuiltinTool] = []


class OfferedTool(_Read):
    """A server's tool that the agent may call, and how it is presented."""

    name: str
    override_description: str | None = None
    override_arg_description: dict[str, str] | None = None
    direct_response: str | None = None
    is_end_turn: bool = False


class Tags(_Read):
    labels: list[str] = []
    category: list[str] = []
    domain: str | None = None
    eval: str | None = None
    skip: bool = False


def _tags(value: Any) -> Any:
    """From the flat list of texts that files hold."""
    if value is None:
        return {}
    if not isinstance(value, list):
        return value
    found: dict[str, Any] = {"labels": [], "category": []}
    for tag in value:
        if not isinstance(tag, str):
            raise ValueError(f"the tag {tag!r} is no text")
        kind, colon, rest = tag.partition(":")
        match kind.lower() if colon else "":
            case "domain" | "eval":
                found[kind.lower()] = rest.lower()
            case "category":
                found["category"].append(rest.lower())
            case _ if tag.lower() == "skip":
                found["skip"] = True
            case _:
                found["labels"].append(tag)
    return found


FlatTags = Annotated[Tags, BeforeValidator(_tags)]
Fixtures = dict[str, dict[str, JsonValue]]
"""Name → `type`, a dotted path, and the arguments of the factory."""


class Scenario(_Read):
    world_state: dict[str, dict[str, JsonValue] | None]
    """Server → what its init is given; of two tools of one name the later server's wins."""
    tools: list[OfferedTool]
    bot_instructions: str | None = None
    tags: FlatTags = Tags()
    fixtures: Fixtures = {}
    metadata: dict[str, JsonValue] = {}


class CaseFields(_Read):
    """A test case before its scenario, agent and history are put in."""

    uid: str
    scenario: str
    query: str
    test_code: str
    history: str | None = None
    bot_instructions: str | None = None
    user_context: str | None = None
    max_user_sim_turns: int = Field(10, ge=0)
    max_agent_sim_turns: int = Field(sys.maxsize, ge=0)
    init: dict[str, dict[str, JsonValue]] = {}
    format_query: bool = False
    metadata: dict[str, JsonValue] = {}
    tags: FlatTags = Tags()


def merged(state: Any, own: Any) -> Any:
    """A test's init over its scenario's: mappings key by key, lists joined, else the test's value."""
    if isinstance(state, dict) and isinstance(own, dict):
        both = dict(state)
        for key, value in own.items():
            both[key] = merged(state[key], value) if key in state else value
        return both
    if isinstance(state, list) and isinstance(own, list):
        return [*state, *own]
    return own


def merged_state(scenario: Scenario, case: CaseFields) -> dict[str, JsonValue]:
    """Server → init, the scenario's servers first and in its order."""
    both: dict[str, JsonValue] = {name: state or {} for name, state in scenario.world_state.items()}
    for name, own in case.init.items():
        both[name] = merged(both[name], own) if both.get(name) else own
    return both


def merged_tags(scenario: Tags, case: Tags) -> dict[str, Any]:
    """Labels are joined, the test's domain wins, categories are the test's alone."""
    return {
        "labels": [*scenario.labels, *case.labels],
        "domain": case.domain or scenario.domain,
        "eval": case.eval or scenario.eval,
        "category": case.category,
        "skip": scenario.skip or case.skip,
    }
