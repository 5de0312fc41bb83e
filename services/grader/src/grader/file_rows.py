"""Files as rows: one per file, in the order of their paths. An env-server tells them so, and a caller
who sends a state by tables must, too.

    {"path": "letters/ada.txt", "bytes": 5, "sha256": "…", "text": "Hello"}

`text` is null where a file is no UTF-8 text, holds a NUL, or is larger than 256 KiB; its hash is always
there. Paths are plain ASCII, so that two names never look alike.
"""

import re
from collections.abc import Sequence
from typing import Annotated

from envfarm.canonical import bytes_hash, canonical_json
from envfarm.errors import InvalidArgument
from pydantic import BaseModel, ConfigDict, Field, ValidationError

TABLE = "episode_files"
"""The table in which files appear; no world may have one of that name."""
COLUMNS = ("path", "bytes", "sha256", "text")
TYPES = ("text", "bigint", "text", "text")
NULLABLE = (False, False, False, True)
KEY = ("path",)
TEXT_BYTES = 256 << 10
MAX_PATH = 200
MAX_DEPTH = 8
_PART = re.compile(r"[A-Za-z0-9_-]([A-Za-z0-9 ._-]*[A-Za-z0-9_-])?")


class _FileRow(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    path: str
    bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    text: str | None


def checked(rows: Sequence[str]) -> list[str]:
    """The rows as canonical JSON in path order; InvalidArgument for one that no folder can hold."""
    found: dict[str, str] = {}
    for number, text in enumerate(rows):
        where = f"state.{TABLE}[{number}]"
        try:
            row = _FileRow.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            raise InvalidArgument(
                f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
            ) from error
        if fault := _fault(row):
            raise InvalidArgument(f"{where}: {fault}")
        if row.path in found:
            raise InvalidArgument(f"{where}: the file is there twice")
        found[row.path] = canonical_json(row.model_dump())
    for path in found:
        parts = path.split("/")
        if any("/".join(parts[:depth]) in found for depth in range(1, len(parts))):
            raise InvalidArgument(f"state.{TABLE}: {path!r} lies inside another file")
    return [row for _, row in sorted(found.items())]


def _fault(row: _FileRow) -> str:
    """What is wrong with a row; empty when nothing is."""
    parts = row.path.split("/")
    if len(row.path) > MAX_PATH or len(parts) > MAX_DEPTH or not all(map(_PART.fullmatch, parts)):
        return f"{row.path[:MAX_PATH]!r} is no relative path inside the folder"
    if row.text is None:
        return ""
    try:
        content = row.text.encode()
    except UnicodeEncodeError:
        return "its text cannot be UTF-8"
    if len(content) > TEXT_BYTES or b"\0" in content:
        return "its text is null, as it is too large or holds a NUL"
    if (len(content), bytes_hash(content)) != (row.bytes, row.sha256):
        return "its text has another size or hash than it says"
    return ""
