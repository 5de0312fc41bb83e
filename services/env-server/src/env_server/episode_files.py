"""The private folder of an episode, as its tools leave it and as evidence shows it.

On disk, 0700, gone with the episode. Evidence tells it as a table `episode_files`, one row per file;
what is read there must be what the calls wrote, to the byte, or there is no evidence at all.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from envfarm.canonical import bytes_hash, canonical_json, content_hash
from envfarm.errors import BrokenWorld, ConfigError, EvidenceError

from env_server import evidence
from env_server.evidence import Digest, Evidence, Table, TableRows
from env_server.file_view import FileLimits, FileView, path_fault

TEXT_BYTES = 256 << 10
"""The text of a larger file is not shown in evidence; its hash always is."""
PREFIX = "files-"
_COLUMNS = ("path", "bytes", "sha256", "text")
TABLE = Table("episode_files", _COLUMNS, ("path",), frozenset({"path"}), _COLUMNS)
"""As evidence and the grader know it; no world may have a table of this name."""


def rows_of(files: Mapping[str, bytes]) -> TableRows:
    """One row per file, in the order of their paths."""
    rows = tuple(
        canonical_json(
            {
                "path": path,
                "bytes": len(content),
                "sha256": bytes_hash(content),
                "text": _text(content),
            }
        )
        for path, content in sorted(files.items())
    )
    return TableRows(TABLE, rows, rows, evidence.hash_of(rows))


def read_seed(folder: Path, limits: FileLimits) -> dict[str, bytes]:
    """The files that every episode of a world starts with; BrokenWorld when they cannot be that."""
    try:
        found = _read(folder) if folder.exists() else {}
    except (EvidenceError, OSError) as error:
        raise BrokenWorld(f"{folder}: {error}") from error
    for path in found:
        if fault := path_fault(path):
            raise BrokenWorld(f"{folder / path}: {fault}")
    if len(found) > limits.max_files or sum(map(len, found.values())) > limits.max_bytes:
        raise BrokenWorld(f"{folder}: more than `files` of world.yaml allows")
    return found


def state_hash(tables: Mapping[str, str], *apart: TableRows | None) -> str:
    """Of a state with these table hashes and, where there are any, tables of no database."""
    return content_hash({**tables, **{rows.table.name: rows.hash for rows in apart if rows}})


def joined(found: Evidence, initial_hash: str, initial: TableRows, final: TableRows) -> Evidence:
    """The evidence of a database with that of one more table beside it."""
    changes = (*found.changes, *evidence.changes_of(initial, final))
    digests = (*found.digests, Digest(final.table, len(final.canonical), final.hash))
    hashes = {digest.table.name: digest.hash for digest in digests}
    return Evidence(
        initial_hash,
        content_hash(hashes) if changes else initial_hash,
        digests,
        changes,
        found.from_journal,
    )


class EpisodeFiles:
    """The folder of one episode; made by `FileRoom.open`."""

    def __init__(self, folder: Path, limits: FileLimits):
        self._folder = folder
        self._limits = limits
        self._written: dict[str, bytes] = {}

    def view(self, *, is_readonly: bool) -> FileView:
        """What a call works on; `apply` makes its changes last."""
        return FileView(self._written, self._limits, is_readonly=is_readonly)

    def apply(self, changes: Mapping[str, bytes | None]) -> None:
        """Write the changes of a committed call; OSError when the disk does not take them."""
        for path, content in changes.items():
            place = self._folder / path
            if content is None:
                place.unlink(missing_ok=True)
                self._written.pop(path, None)
                self._drop_empty(place.parent)
        for path, content in changes.items():
            if content is not None:
                place = self._folder / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
                self._written[path] = content

    def collect(self) -> TableRows:
        """What the folder holds; EvidenceError unless that is what the calls wrote."""
        try:
            found = _read(self._folder)
        except OSError as error:
            raise EvidenceError(f"the episode's files cannot be read: {error.strerror}") from error
        if found != self._written:
            wrong = sorted(
                path
                for path in found.keys() | self._written.keys()
                if found.get(path) != self._written.get(path)
            )
            raise EvidenceError(f"files are not what the calls wrote: {', '.join(wrong)[:300]}")
        return rows_of(found)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _drop_empty(self, folder: Path) -> None:
        while folder != self._folder:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent


class FileRoom:
    """The folders of all episodes of this process; what dead processes left goes at the start."""

    def __init__(self, base: Path):
        try:
            base.mkdir(parents=True, exist_ok=True)
            for folder in base.glob(PREFIX + "*"):
                remove_if_dead(folder)
            self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
            self._lock = lock_folder(self.folder)
        except OSError as error:
            raise ConfigError(f"{base}: no folder for files: {error.strerror}") from error

    def open(self, episode_id: str, limits: FileLimits, seed: Mapping[str, bytes]) -> EpisodeFiles:
        """A folder of its own for an episode, with the files it starts with; OSError when the disk
        is full."""
        folder = self.folder / episode_id
        folder.mkdir(mode=0o700)
        files = EpisodeFiles(folder, limits)
        try:
            files.apply(seed)
        except OSError:
            files.remove()
            raise
        return files

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def _read(folder: Path) -> dict[str, bytes]:
    """All files below `folder`; EvidenceError for a link, a device and whatever else is no file."""
    found: dict[str, bytes] = {}
    for entry, path in _walk(folder, ""):
        if not entry.is_file(follow_symlinks=False):
            raise EvidenceError(f"{path[:200]!r} is no regular file")
        handle = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise EvidenceError(f"{path[:200]!r} is no regular file")
            found[path] = file.read()
    return found


def _walk(folder: Path, prefix: str) -> Iterator[tuple[os.DirEntry[str], str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path), path + "/")
            else:
                yield entry, path


def _text(content: bytes) -> str | None:
    """None where the file is large or no text."""
    if len(content) > TEXT_BYTES or b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def lock_folder(folder: Path) -> int:
    """A lock on a folder of this process, held until it is closed or the process ends."""
    lock = os.open(folder / "owner.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return lock


def remove_if_dead(folder: Path, before: Callable[[], object] = lambda: None) -> None:
    """Remove the folder of a process that has ended, after `before`."""
    # Whoever holds the lock lives; a folder without one is being made or is torn, and stays small.
    with contextlib.suppress(BlockingIOError, FileNotFoundError):
        lock = os.open(folder / "owner.lock", os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            before()
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
