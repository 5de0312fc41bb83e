"""What is thrown away: records older than the policy's days, then the oldest beyond its bytes."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TORN_SECONDS = 3600.0
"""A temporary file of this age has no writer any more."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`keep_days` since the last use, `keep_bytes` on disk for all records together."""

    keep_days: float
    keep_bytes: int


@dataclass(frozen=True, slots=True)
class Swept:
    removed: int
    kept_bytes: int


def sweep(folder: Path, policy: Policy, now: float | None = None) -> Swept:
    """Apply the policy to a record folder. Safe beside writers: whoever uses a record again writes
    it again."""
    now = time.time() if now is None else now
    oldest = now - policy.keep_days * 86_400
    removed, kept = 0, []
    for path, used_at, size in _files(folder):
        is_torn = path.suffix == ".tmp" and used_at < now - TORN_SECONDS
        if is_torn or used_at < oldest:
            removed += _remove(path)
        else:
            kept.append((used_at, size, path))
    total = sum(size for _, size, _ in kept)
    for _, size, path in sorted(kept):
        if total <= policy.keep_bytes:
            break
        removed += _remove(path)
        total -= size
    for link in (folder / "requests").glob("*/*"):
        if link.is_symlink() and not link.exists():
            removed += _remove(link)
    return Swept(removed, total)


def _files(folder: Path) -> Iterator[tuple[Path, float, int]]:
    for kind in ("evidence", "rules", "verdicts"):
        for path in (folder / kind).glob("*/*"):
            with contextlib.suppress(FileNotFoundError):
                facts = path.stat()
                yield path, facts.st_mtime, facts.st_blocks * 512


def _remove(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        return 1
    return 0
