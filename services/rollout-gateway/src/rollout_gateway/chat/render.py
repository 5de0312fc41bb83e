"""Messages → token ids, as append-only pieces: what stands in a conversation is never touched again.

<|im_start|>system\n…<|im_end|>\n
<|im_start|>user\n…<|im_end|>\n
<|im_start|>assistant\n            the policy goes on from here and ends with <|im_end|>
\n
<|im_start|>user\n<tool_response>\n…\n</tool_response><|im_end|>\n
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from envfarm.canonical import content_hash

from rollout_gateway.chat.vocabulary import Vocabulary

FORMAT = "envfarm-chat-1"
"""Raised with any change of what this module or `parse` does."""

TOOLS_HEADING = "\n\n# Tools\n"
CALL_BEFORE = "To call one, write "
CALL_EXAMPLE = '{"name": "…", "arguments": {…}}'
CALL_AFTER = ". Its answer follows. Write plain text to talk to the user."


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolLine:
    """A tool as the system prompt names it."""

    name: str
    description: str
    input_schema_json: str


class Renderer:
    def __init__(self, vocabulary: Vocabulary):
        self._words = vocabulary
        self.hash = content_hash(
            {
                "format": FORMAT,
                "tokenizer": vocabulary.hash,
                "texts": [TOOLS_HEADING, CALL_BEFORE, CALL_EXAMPLE, CALL_AFTER],
            }
        )
        """Of the tokenizer and this chat format."""

    def system(self, policy: str, tools: Iterable[ToolLine]) -> list[int]:
        words, lines = self._words, "\n".join(tool_line(tool) for tool in tools)
        body = words.plain(f"system\n{policy.strip()}")
        if lines:
            body += words.plain(f"{TOOLS_HEADING}{lines}\n{CALL_BEFORE}")
            body += words.mark("<tool_call>") + words.plain(CALL_EXAMPLE)
            body += words.mark("</tool_call>") + words.plain(CALL_AFTER)
        return self._turn(body)

    def user(self, text: str) -> list[int]:
        return self._turn(self._words.plain(f"user\n{text}"))

    def tool_results(self, contents: Sequence[str]) -> list[int]:
        """All results of one model turn, in the order of its calls."""
        words = self._words
        body = words.plain("user\n")
        for index, content in enumerate(contents):
            body += words.plain("\n") if index else []
            body += words.mark("<tool_response>") + words.plain(f"\n{content}\n")
            body += words.mark("</tool_response>")
        return self._turn(body)

    def open_assistant(self) -> list[int]:
        return [self._words.turn_start, *self._words.plain("assistant\n")]

    def close_assistant(self, last: int) -> list[int]:
        """What the policy did not sample itself of the end of its turn; `last` is its last token."""
        missing = [] if last == self._words.turn_end else [self._words.turn_end]
        return missing + self._words.plain("\n")

    def assistant_text(self, ids: Sequence[int]) -> str:
        """Text of a sampled turn without the token that ended it."""
        stopped = bool(ids) and ids[-1] in self._words.stops
        return self._words.decode(ids[:-1] if stopped else ids)

    def _turn(self, body: list[int]) -> list[int]:
        words = self._words
        return [words.turn_start, *body, words.turn_end, *words.plain("\n")]


def tool_line(tool: ToolLine) -> str:
    """`find_order(order_id: string, note?: string): What it does.` on one line."""
    schema: dict[str, Any] = json.loads(tool.input_schema_json or "{}")
    required = set(schema.get("required", ()))
    arguments = ", ".join(
        f"{name}{'' if name in required else '?'}: {_type(part)}"
        for name, part in schema.get("properties", {}).items()
    )
    return f"{tool.name}({arguments}): {' '.join(tool.description.split())}"


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "|".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if "anyOf" in schema:
        parts = [_type(part) for part in schema["anyOf"] if part.get("type") != "null"]
        return "|".join(dict.fromkeys(parts))
    if schema.get("type") == "array":
        return f"[{_type(schema.get('items', {}))}]"
    return str(schema.get("type", "any"))
