"""A model turn's text → reasoning, text for the user, tool calls. Pure, and it never raises.

    <think>reasoning</think> text <tool_call>…</tool_call>

What is wrong with a call becomes a sentence for the model (MalformedCall), not an error: a rollout
does not die of the model's typing. A call inside the reasoning is not run, and counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rollout_gateway.chat.calls import (
    CALL_CLOSE,
    CALL_OPEN,
    MalformedCall,
    ReadCall,
    Schemas,
    ToolCall,
    malformed,
)
from rollout_gateway.chat.calls_json import read_json_call

__all__ = ["MalformedCall", "Reply", "ToolCall", "parse"]

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
ONLY_IN_REASONING = (
    f"A tool call inside the reasoning is not run: close it with {THINK_CLOSE} first."
)
NO_SCHEMAS: Schemas = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    reasoning: str
    text: str
    calls: tuple[ToolCall | MalformedCall, ...]
    calls_in_reasoning: int = 0


def parse(
    turn: str,
    schemas: Mapping[str, Mapping[str, object]] = NO_SCHEMAS,
    read: ReadCall = read_json_call,
) -> Reply:
    """`read` reads what stands between the tags of a call."""
    reasoning, rest = split_reasoning(turn)
    inside = reasoning.count(CALL_OPEN)
    texts: list[str] = []
    calls: list[ToolCall | MalformedCall] = []
    while True:
        before, opened, rest = rest.partition(CALL_OPEN)
        texts.append(before)
        if not opened:
            break
        body, closed, rest = rest.partition(CALL_CLOSE)
        if closed:
            calls.append(read(body, schemas))
        else:
            calls.append(malformed(body, f"The tool call has no {CALL_CLOSE}."))
    text = "\n".join(part for part in (piece.strip() for piece in texts) if part)
    if inside and not calls and not text:
        # The model thinks that it called: without a word to it the conversation would just end.
        calls.append(malformed(reasoning, ONLY_IN_REASONING))
    return Reply(reasoning=reasoning, text=text, calls=tuple(calls), calls_in_reasoning=inside)


def split_reasoning(turn: str) -> tuple[str, str]:
    """A turn that opens a thought and does not close it is all thought."""
    stripped = turn.lstrip()
    opens = stripped.startswith(THINK_OPEN)
    thought, closed, rest = turn.partition(THINK_CLOSE)
    if closed and (opens or THINK_OPEN not in thought):
        return thought.strip().removeprefix(THINK_OPEN).strip(), rest
    if opens:
        return stripped.removeprefix(THINK_OPEN).strip(), ""
    return "", turn
