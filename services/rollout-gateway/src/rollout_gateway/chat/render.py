"""Messages → token ids, as append-only pieces: what stands in a conversation is never touched again.

<|im_start|>system\n…<|im_end|>\n
<|im_start|>user\n…<|im_end|>\n
<|im_start|>assistant\n            the policy goes on from here and ends with <|im_end|>
\n
<|im_start|>user\n<tool_response>\n…\n</tool_response><|im_end|>\n

Known differences to a model's own template, all of them: sampled turns stay as they were sampled
(no arguments written anew, no text trimmed, reasoning kept or stripped as `reasoning` says);
control tokens in foreign text stay text; a turn that a limit cut gets its end without being sampled.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal

from envfarm.canonical import content_hash

from rollout_gateway.chat.calls import Schemas
from rollout_gateway.chat.formats import FORMATS, ToolLine
from rollout_gateway.chat.parse import THINK_CLOSE, Reply, parse
from rollout_gateway.chat.vocabulary import Vocabulary

Reasoning = Literal["keep", "strip"]
MARKS = re.compile(r"(</?(?:think|tool_call|tool_response)>)")
CACHED = 512


class Renderer:
    """One chat format over one tokenizer."""

    def __init__(
        self, vocabulary: Vocabulary, chat_format: str = "compact", reasoning: Reasoning = "keep"
    ):
        self._words = vocabulary
        self.format = FORMATS[chat_format]
        self.reasoning = reasoning
        self.hash = content_hash(
            {
                "format": f"{self.format.name}-{self.format.revision}",
                "reasoning": reasoning,
                "tokenizer": vocabulary.hash,
            }
        )
        """Of the tokenizer, this chat format, and what becomes of reasoning."""
        self._system = lru_cache(CACHED)(self._render_system)
        self._opening = [vocabulary.turn_start, *vocabulary.plain("assistant\n")]
        self._newline = vocabulary.plain("\n")

    def system(self, policy: str, tools: Iterable[ToolLine]) -> list[int]:
        return list(self._system(policy, tuple(tools)))

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
        return self._turn(body + words.plain(self.format.after_results))

    def open_assistant(self) -> list[int]:
        return list(self._opening)

    def close_assistant(self, last: int) -> list[int]:
        """What the policy did not sample itself of the end of its turn; `last` is its last token."""
        missing = [] if last == self._words.turn_end else [self._words.turn_end]
        return missing + self._newline

    def assistant_text(self, ids: Sequence[int]) -> str:
        """Text of a sampled turn without the token that ended it."""
        stopped = bool(ids) and ids[-1] in self._words.stops
        return self._words.decode(ids[:-1] if stopped else ids)

    def read(self, ids: Sequence[int], schemas: Schemas) -> Reply:
        """What a sampled turn means."""
        return parse(self.assistant_text(ids), schemas, self.format.read_call)

    def write(self, reasoning: str, text: str, calls: Sequence[tuple[str, dict[str, Any]]]) -> str:
        """The canonical text of an assistant turn: what `read` reads back."""
        thought = f"<think>\n{reasoning}\n</think>\n\n" if reasoning else ""
        written = [self.format.write_call(name, arguments) for name, arguments in calls]
        return thought + "\n".join([*([text] if text else []), *written])

    def assistant(self, text: str) -> list[int]:
        """A written assistant turn as the policy would have sampled it, to its end: for teaching."""
        parts = [part for part in MARKS.split(text) if part]
        ids = [
            number
            for part in parts
            for number in (
                self._words.mark(part) if MARKS.fullmatch(part) else self._words.plain(part)
            )
        ]
        return [*ids, self._words.turn_end]

    def reasoning_length(self, ids: Sequence[int]) -> int:
        """Leading tokens of a sampled turn that are reasoning, its closing mark included."""
        mark = self._words.mark(THINK_CLOSE)
        if len(mark) == 1:
            return ids.index(mark[0]) + 1 if mark[0] in ids else 0
        if THINK_CLOSE not in self._words.decode(ids):
            return 0
        low, high = 1, len(ids)
        while low < high:
            middle = (low + high) // 2
            if THINK_CLOSE in self._words.decode(ids[:middle]):
                high = middle
            else:
                low = middle + 1
        return low

    def _render_system(self, policy: str, tools: tuple[ToolLine, ...]) -> tuple[int, ...]:
        words = self._words
        body = words.plain(f"system\n{policy.strip()}")
        for text, is_mark in self.format.tools(tools) if tools else ():
            body += words.mark(text) if is_mark else words.plain(text)
        return tuple(self._turn(body))

    def _turn(self, body: list[int]) -> list[int]:
        words = self._words
        return [words.turn_start, *body, words.turn_end, *self._newline]
