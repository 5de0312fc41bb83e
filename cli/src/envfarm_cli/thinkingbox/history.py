"""Conversations that a test begins with: slices of transcripts in `<stem>.meta.yaml`."""

from pathlib import Path
from typing import Any

from envfarm.errors import ConfigError

from envfarm_cli.thinkingbox import plain_yaml

KINDS = frozenset({"Text", "ToolCall", "ParallelToolCall", "ToolResponse"})


def resolve(reference: str, test_file: Path) -> list[dict[str, Any]]:
    """The messages of `key:start:end`: from an index or message id to before a message id, or to the
    end where that is empty. ConfigError when a part names nothing."""
    parts = reference.rsplit(":", 2)
    if len(parts) != 3 or not parts[0]:
        raise ConfigError(f"history {reference!r} is not key:start:end")
    key, start, end = parts
    path = test_file.with_suffix(".meta.yaml")
    if not path.exists():
        raise ConfigError(f"history {reference!r}: there is no {path}")
    document = plain_yaml.read(path)
    groups = document.get("$history") if isinstance(document, dict) else None
    messages = groups.get(key) if isinstance(groups, dict) else None
    if key.startswith("#") or not isinstance(messages, list):
        raise ConfigError(f"{path}: there is no conversation {key!r} under $history")
    first = _place(messages, start, path)
    last = len(messages) if end == "" else _by_id(messages, end, path)
    if end and last <= first:
        raise ConfigError(f"{path}: history {reference!r} ends before it begins")
    chosen = messages[first:last]
    for message in chosen:
        if not isinstance(message, dict) or message.get("T") not in KINDS:
            raise ConfigError(f"{path}: history {reference!r} holds what is no message")
    return chosen


def _place(messages: list[Any], start: str, path: Path) -> int:
    try:
        index = int(start)
    except ValueError:
        return _by_id(messages, start, path)
    if not 0 <= index <= len(messages):
        raise ConfigError(f"{path}: a conversation of {len(messages)} messages has no {index}")
    return index


def _by_id(messages: list[Any], wanted: str, path: Path) -> int:
    for place, message in enumerate(messages):
        if isinstance(message, dict) and message.get("message_id") == wanted:
            return place
    raise ConfigError(f"{path}: there is no message_id {wanted!r}")
