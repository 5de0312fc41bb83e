"""The policy's tokenizer, with the two kinds of text kept apart.

Control tokens are inserted by id. Plain text, which is everything that comes from tasks, tools,
users and records, is encoded by a second copy of the tokenizer that has no added tokens at all, so
`<|im_end|>` or `</tool_response>` inside a record stays a row of ordinary characters.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envfarm.canonical import bytes_hash
from envfarm.errors import ConfigError, boundary
from tokenizers import Tokenizer

TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
TEXT_END = "<|endoftext|>"


class Vocabulary:
    """Ids of one tokenizer.json; ConfigError when it cannot serve the chat format."""

    def __init__(self, folder: Path):
        path = folder / "tokenizer.json"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot read {path}: {error.strerror}",
                hint="point GATEWAY_TOKENIZER_DIR at the folder of the policy's tokenizer",
            ) from error
        # The tokenizers library raises a bare Exception on a file that it cannot take.
        with boundary(ConfigError, f"{path} is not a usable tokenizer", Exception):
            self._tokenizer = Tokenizer.from_str(data.decode())
            plain = json.dumps(_without_added_tokens(json.loads(data)))
            self._plain = Tokenizer.from_str(plain)
        self.hash = bytes_hash(data)
        self.size: int = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self._added = {
            token.content: number
            for number, token in self._tokenizer.get_added_tokens_decoder().items()
        }
        self.turn_start = self._control(path, TURN_START)
        self.turn_end = self._control(path, TURN_END)
        self.stops = tuple(
            sorted({self.turn_end, self._added.get(TEXT_END, self.turn_end)}),
        )
        self._refuse_forgeable(path)

    def plain(self, text: str) -> list[int]:
        """Ids of text that is not ours; none of them is an added token."""
        return self._plain.encode(text, add_special_tokens=False).ids

    def mark(self, text: str) -> list[int]:
        """Ids of one of our own marks, such as <tool_response>: its own token where it has one."""
        number = self._added.get(text)
        return self.plain(text) if number is None else [number]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, control tokens visible."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def _control(self, path: Path, text: str) -> int:
        if text not in self._added:
            raise ConfigError(
                f"{path} has no token {text}", hint="use a model with the Qwen chat format"
            )
        return self._added[text]

    def _refuse_forgeable(self, path: Path) -> None:
        added = set(self._added.values())
        for text in self._added:
            if added & set(self.plain(text)):
                raise ConfigError(
                    f"{path}: plain text can become the control token {text}",
                    hint="its base vocabulary holds the token itself; use another tokenizer",
                )


def _without_added_tokens(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "added_tokens": [], "post_processor": None, "truncation": None}
