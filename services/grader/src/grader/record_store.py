"""Verdicts and the evidence behind them, on disk, shared by all worker processes.

    evidence/ab/<sha256>.zz         what was judged, under the hash of its content
    rules/ab/<sha256>.zz            checks and golden snapshot of one version
    verdicts/ab/<verdict id>.zz     a verdict with the answers that its checks got
    requests/ab/<sha256 of the id>  link to the request's verdict: it is written last

Every file appears whole or not at all; one that does not match its own hash is not there.
"""

import contextlib
import hashlib
import json
import os
import zlib
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Literal

from envfarm.canonical import bytes_hash, canonical_json
from envfarm.errors import ConfigError, UnknownVerdict

Kind = Literal["evidence", "rules", "verdicts"]
LEVEL = 3
"""Of zlib: text of rows shrinks to a fifth, at 60 MB a second."""
_ID_LENGTH = 128


class RecordStore:
    """A folder of records; many processes may read and write it at once."""

    def __init__(self, folder: Path, *, keep_evidence: bool = True):
        self.folder = folder
        self._keep_evidence = keep_evidence
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ConfigError(f"cannot keep verdicts in {folder}: {error.strerror}") from error

    def put_evidence(self, content: dict[str, Any]) -> str:
        """Keep it if the policy says so; its hash in any case."""
        data = canonical_json(content).encode()
        name = bytes_hash(data)
        if self._keep_evidence:
            self._put("evidence", name, data)
        return name

    def put_rules(self, content: dict[str, Any]) -> str:
        """Keep the rules of one version; their hash."""
        data = canonical_json(content).encode()
        name = bytes_hash(data)
        self._put("rules", name, data)
        return name

    def put_verdict(self, verdict_id: str, content: dict[str, Any], request_id: str = "") -> None:
        """Keep a verdict, and name it as the answer to `request_id`."""
        data = canonical_json(content).encode()
        self._put("verdicts", verdict_id, data, checksum=True)
        if request_id:
            self._link(request_id, verdict_id)

    def evidence(self, name: str) -> dict[str, Any]:
        """UnknownVerdict when it is not kept (any more)."""
        return self._addressed("evidence", name)

    def rules(self, name: str) -> dict[str, Any]:
        """UnknownVerdict when they are not kept (any more)."""
        return self._addressed("rules", name)

    def verdict(self, verdict_id: str) -> dict[str, Any]:
        """UnknownVerdict when there is none."""
        found = self.find_verdict(verdict_id)
        if found is None:
            raise UnknownVerdict(f"there is no verdict {verdict_id[:_ID_LENGTH]!r} here")
        return found

    def find_verdict(self, verdict_id: str) -> dict[str, Any] | None:
        """The record of a verdict, if it is kept."""
        return self._verdict(self._path("verdicts", verdict_id)) if _is_id(verdict_id) else None

    def by_request(self, request_id: str) -> dict[str, Any] | None:
        """The record of the verdict that answered a request, if any."""
        return self._verdict(self._request_path(request_id))

    def _verdict(self, path: Path) -> dict[str, Any] | None:
        data = _unpacked(path)
        if data is None:
            return None
        stated, _, content = data.partition(b"\n")
        return json.loads(content) if bytes_hash(content).encode() == stated else None

    def _addressed(self, kind: Kind, name: str) -> dict[str, Any]:
        data = _unpacked(self._path(kind, name)) if _is_id(name) else None
        if data is None or bytes_hash(data) != name:
            raise UnknownVerdict(
                f"the {kind} {name[:12]} behind this verdict are not kept here",
                hint="GRADER_KEEP_EVIDENCE, GRADER_KEEP_DAYS and GRADER_KEEP_BYTES decide what is",
            )
        return json.loads(data)

    def _put(self, kind: Kind, name: str, data: bytes, *, checksum: bool = False) -> None:
        path = self._path(kind, name)
        if not checksum:
            # Content under its own hash never changes; the time of its last use does.
            with contextlib.suppress(OSError):
                os.utime(path)
                return
        packed = zlib.compress(
            bytes_hash(data).encode() + b"\n" + data if checksum else data, LEVEL
        )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
                try:
                    file.write(packed)
                    file.flush()
                    Path(file.name).replace(path)
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise _full(path, error) from error

    def _link(self, request_id: str, verdict_id: str) -> None:
        path = self._request_path(request_id)
        target = Path("../..") / self._path("verdicts", verdict_id).relative_to(self.folder)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.unlink(missing_ok=True)
            temporary.symlink_to(target)
            temporary.replace(path)
        except OSError as error:
            raise _full(path, error) from error

    def _path(self, kind: Kind, name: str) -> Path:
        return self.folder / kind / name[-2:] / f"{name}.zz"

    def _request_path(self, request_id: str) -> Path:
        name = hashlib.sha256(request_id.encode()).hexdigest()
        return self.folder / "requests" / name[-2:] / name


def _unpacked(path: Path) -> bytes | None:
    try:
        return zlib.decompress(path.read_bytes())
    except (OSError, zlib.error):
        return None


def _is_id(text: str) -> bool:
    """Whether it can be a file name that we made: nothing else reaches the disk."""
    return 8 <= len(text) <= _ID_LENGTH and all(
        c.isascii() and (c.isalnum() or c == "-") for c in text
    )


def _full(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot write {path}: {error.strerror}",
        hint="make room on that disk, or lower GRADER_KEEP_DAYS and GRADER_KEEP_BYTES",
    )
