"""What one tool call sees of its episode's files: its own changes at once, others' not at all.

Nothing here touches the disk; `episode_files.py` does when the call's transaction is committed.
"""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from env_server.refusal import Refused

MAX_PATH = 200
MAX_DEPTH = 8
_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9 ._-]*")
"""Of a path. Plain letters only, so that two names never look alike or differ by normal form."""


class FileLimits(BaseModel):
    """How much an episode's folder may hold; `files` of world.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_bytes: Annotated[int, Field(ge=1, le=16 << 20)] = 1 << 20
    max_files: Annotated[int, Field(ge=1, le=1000)] = 64


def path_fault(path: str) -> str:
    """Why a file may not be called so; empty when it may."""
    parts = path.split("/")
    if len(path) > MAX_PATH or len(parts) > MAX_DEPTH:
        return f"a path has at most {MAX_PATH} characters and {MAX_DEPTH} parts"
    if not all(_PART.fullmatch(part) and part[-1] not in " ." for part in parts):
        return (
            "a path is made of letters, digits and . _ - between slashes, and stays in its folder"
        )
    return ""


class FileView:
    """Reads, writes and deletes by path; Refused where that is not possible."""

    def __init__(self, files: Mapping[str, bytes], limits: FileLimits, *, is_readonly: bool):
        self._files = files
        self._limits = limits
        self._is_readonly = is_readonly
        self.changes: dict[str, bytes | None] = {}
        """Path → new content, None where the file is deleted."""

    def paths(self) -> list[str]:
        """Of all files, in order."""
        return sorted(self._now())

    def read(self, path: str) -> bytes:
        content = self._now().get(path)
        if content is None:
            raise Refused(f"There is no file {path[:MAX_PATH]!r}.")
        return content

    def read_text(self, path: str) -> str:
        try:
            return self.read(path).decode()
        except UnicodeDecodeError as error:
            raise Refused(f"The file {path!r} is no text.") from error

    def write(self, path: str, content: str | bytes) -> None:
        """Make or replace a file; Refused beyond the limits of the folder."""
        self._require_writable()
        if fault := path_fault(path):
            raise Refused(f"{path[:MAX_PATH]!r} cannot be written: {fault}.")
        try:
            data = content.encode() if isinstance(content, str) else bytes(content)
        except UnicodeEncodeError as error:
            raise Refused("The text cannot be written as UTF-8.") from error
        after = {**self._now(), path: data}
        if any(_is_inside(path, other) or _is_inside(other, path) for other in after):
            raise Refused(f"{path!r} cannot be both a file and a folder.")
        if len(after) > self._limits.max_files:
            raise Refused(f"There may be {self._limits.max_files} files at most.")
        if sum(map(len, after.values())) > self._limits.max_bytes:
            raise Refused(f"All files together may have {self._limits.max_bytes} bytes at most.")
        self.changes[path] = data

    def delete(self, path: str) -> None:
        self._require_writable()
        self.read(path)
        self.changes[path] = None

    def _now(self) -> dict[str, bytes]:
        merged = {**self._files, **self.changes}
        return {path: content for path, content in merged.items() if content is not None}

    def _require_writable(self) -> None:
        if self._is_readonly:
            raise Refused("This tool may only read.")


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")
