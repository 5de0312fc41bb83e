"""What a world's tools.py imports: the decorator, READ and WRITE, a refusal, and a call.

A tool is an async function whose first parameter is a `Call`; the others are its arguments. Their
type hints become the JSON Schema and the docstring becomes the description that a model reads.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, get_type_hints

from envfarm.canonical import canonical_json
from envfarm.errors import BrokenWorld
from psycopg import AsyncCursor
from pydantic import BaseModel, ConfigDict, PydanticUserError, ValidationError, create_model

from env_server.file_view import FileView
from env_server.refusal import Refused

__all__ = ["READ", "WRITE", "Access", "Call", "FileView", "Refused", "Tool", "build_tool", "tool"]


class Access(Enum):
    READ = "read"
    """Runs in a read-only transaction."""
    WRITE = "write"


READ = Access.READ
WRITE = Access.WRITE


@dataclass(frozen=True, slots=True)
class Call:
    """One call: a cursor inside its transaction, the world's frozen clock, and the episode's files."""

    db: AsyncCursor[dict[str, Any]]
    now: datetime
    files: FileView | None = None
    """There where world.yaml declares `files`; changes last when the transaction does."""


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    access: Access
    function: Callable[..., Awaitable[Any]]
    arguments: type[BaseModel]
    schema_json: str
    """JSON Schema (object) of the arguments, canonical."""

    def parse(self, arguments_json: str) -> dict[str, Any]:
        """The arguments as Python values; Refused names each one that does not fit."""
        try:
            parsed = self.arguments.model_validate_json(arguments_json or "{}", strict=True)
        except ValidationError as error:
            problems = [
                (f"{'.'.join(map(str, item['loc']))}: " if item["loc"] else "") + item["msg"]
                for item in error.errors()
            ]
            raise Refused(f"Bad arguments for {self.name}. " + "; ".join(problems)) from error
        return {name: getattr(parsed, name) for name in self.arguments.model_fields}


def tool(
    access: Access,
) -> Callable[[Callable[..., Awaitable[Any]]], Callable[..., Awaitable[Any]]]:
    """Declare a tool; BrokenWorld when its signature or docstring cannot make one."""

    def declare(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        function.__dict__["envfarm_tool"] = build_tool(access, function)
        return function

    return declare


def build_tool(access: Access, function: Callable[..., Awaitable[Any]]) -> Tool:
    name = function.__name__
    description = inspect.getdoc(function)
    if not inspect.iscoroutinefunction(function):
        raise BrokenWorld(f"tool {name}: it must be an async function")
    if not description:
        raise BrokenWorld(f"tool {name}: it has no docstring, which is what a model reads")
    parameters = list(inspect.signature(function).parameters.values())
    hints = get_type_hints(function, include_extras=True)
    if not parameters or hints.get(parameters[0].name) is not Call:
        raise BrokenWorld(f"tool {name}: its first parameter must be `call: Call`")
    fields: dict[str, Any] = {}
    for parameter in parameters[1:]:
        if parameter.name not in hints or parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
            parameter.POSITIONAL_ONLY,
        ):
            raise BrokenWorld(f"tool {name}: parameter {parameter.name} needs a type and a name")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    try:
        model = create_model(
            name, __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields
        )
        schema = _untitled(model.model_json_schema())
    except PydanticUserError as error:
        raise BrokenWorld(f"tool {name}: {error.message}") from error
    return Tool(name, description, access, function, model, canonical_json(schema))


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """Pydantic's titles repeat the names and cost tokens."""
    schema.pop("title", None)
    for spec in schema.get("properties", {}).values():
        spec.pop("title", None)
    return {"properties": {}, **schema}
