"""The conversation of an attempt in the message form of ThinkingBox datasets, as a caller sends it.

Only a dataset's own test looks at it; our kinds of checks judge ends, never the way there.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

MAX_MESSAGES = 10_000


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid")

    metadata: dict[str, JsonValue] = {}


class Text(_Message):
    """What somebody said; `metadata.tag` is think, text or direct."""

    T: Literal["Text"]
    role: Literal["system", "user", "assistant"]
    content: str


class ToolCall(_Message):
    """A call that was asked for; `metadata.error` says why it could not be made."""

    T: Literal["ToolCall"]
    name: str
    arguments: dict[str, JsonValue]
    id: str


class ParallelToolCall(_Message):
    """The calls of one turn."""

    T: Literal["ParallelToolCall"]
    tool_calls: list[ToolCall]


class ToolResponse(_Message):
    """What a call was answered."""

    T: Literal["ToolResponse"]
    name: str
    content: str
    id: str


Message = Annotated[Text | ToolCall | ParallelToolCall | ToolResponse, Field(discriminator="T")]
Conversation = Annotated[list[Message], Field(max_length=MAX_MESSAGES)]


def plain(messages: Conversation) -> list[dict[str, Any]]:
    """As JSON values, in one form."""
    return [message.model_dump(mode="json") for message in messages]
