"""How one imported task is talked about: domains/<domain>/user/thinkingbox/<slug>.json, as
`envfarm import thinkingbox --worlds` writes it."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from envfarm.canonical import canonical_json
from envfarm.errors import ConfigError
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from rollout_gateway.chat.formats import ToolLine

FOLDER = "thinkingbox"


class _Read(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class BuiltinTool(_Read):
    """A tool that is no server's."""

    name: str
    description: str = ""
    input_schema: dict[str, JsonValue] = {}
    direct_response: str | None = None
    is_end_turn: bool = False


class OfferedTool(_Read):
    """A server's tool, and how this task shows it."""

    name: str
    override_description: str | None = None
    override_arg_description: dict[str, str] | None = None
    direct_response: str | None = None
    """Format over the JSON object that the tool answers: what the user is told at once."""
    is_end_turn: bool = False


class TalkFile(_Read):
    """What the gateway knows of one task."""

    system_instructions: str
    bot_instructions: str | None = None
    builtin_tools: list[BuiltinTool] = []
    tools: list[OfferedTool] = []
    history: list[JsonValue] | None = None
    query: str
    user_context: str | None = None
    max_user_sim_turns: int = Field(10, ge=0)
    """Answers of the user after the query."""
    max_agent_sim_turns: int = Field(ge=0)
    """Messages to the user and messages with tool calls that the agent may make."""

    @property
    def end_turn(self) -> frozenset[str]:
        """Tools whose call ends the conversation."""
        return frozenset(t.name for t in (*self.builtin_tools, *self.tools) if t.is_end_turn)

    @property
    def direct(self) -> Mapping[str, str]:
        """Tool → format of what the user is told at once."""
        tools = (*self.builtin_tools, *self.tools)
        return {t.name: t.direct_response for t in tools if t.direct_response is not None}

    def shown(self, tools: Iterable[ToolLine]) -> list[ToolLine]:
        """What a model is offered: the harness's own tools, then the servers' as overridden."""
        rules = {tool.name: tool for tool in self.tools}
        own = [
            ToolLine(
                name=tool.name,
                description=tool.description,
                input_schema_json=canonical_json(tool.input_schema),
            )
            for tool in self.builtin_tools
        ]
        return [*own, *(_overridden(tool, rules.get(tool.name)) for tool in tools)]


def _overridden(tool: ToolLine, rule: OfferedTool | None) -> ToolLine:
    if rule is None:
        return tool
    schema = tool.schema
    for name, text in (rule.override_arg_description or {}).items():
        if name in schema.get("properties", {}):
            schema["properties"][name]["description"] = text
    described = rule.override_description
    return ToolLine(
        name=tool.name,
        description=tool.description if described is None else described,
        input_schema_json=canonical_json(schema),
    )


def read_talks(domains_dir: Path) -> dict[str, TalkFile]:
    """All of them by task id; ConfigError names the file that is wrong."""
    found: dict[str, TalkFile] = {}
    for path in sorted(domains_dir.glob(f"*/user/{FOLDER}/*.json")):
        try:
            talk = TalkFile.model_validate_json(path.read_bytes())
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise ConfigError(f"{path}: {where + ': ' if where else ''}{first['msg']}") from error
        found[f"{path.parents[2].name}/{path.stem}"] = talk
    return found
