"""Files and folders that appear whole or not at all, and stay after a power cut."""

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

PARTIAL, DISCARDED, UNIVERSAL = "partial", "discarded", "universal"
LEFTOVERS = (PARTIAL, DISCARDED, UNIVERSAL)
"""Endings of hidden folders that nobody needs once their maker is gone."""
_TORCH_WRITER = ("inline_container", "PytorchStreamWriter", "file write failed")


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """What the disk refuses is an OSError that names `place`, whichever library was writing."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, os.strerror(error.errno), str(place)) from error
        raise
    except SafetensorError as error:
        code = re.search(r"os error (\d+)", str(error))
        if code is None:
            raise
        number = int(code.group(1))
        raise OSError(number, os.strerror(number), str(place)) from error
    except RuntimeError as error:
        if not any(word in str(error) for word in _TORCH_WRITER):
            raise
        # torch's writer swallows the number; a disk that took a part of a file is a full one.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(place)) from error


def write_durably(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one step."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def commit_folder(temporary: Path, final: Path) -> None:
    """Make everything under `temporary` durable, then give it its name; an older `final` goes."""
    for path in sorted(temporary.rglob("*"), reverse=True):
        if path.is_dir():
            sync_folder(path)
        else:
            with path.open("rb") as file:
                os.fsync(file.fileno())
    sync_folder(temporary)
    if final.exists():
        discard_folder(final)
    temporary.rename(final)
    sync_folder(final.parent)


def partial(final: Path) -> Path:
    """Where a folder is filled before it gets its name."""
    return final.with_name(f".{final.name}.{PARTIAL}")


def fresh_folder(final: Path) -> Path:
    """An empty folder beside `final` to fill and commit; a leftover of a crash is removed."""
    temporary = partial(final)
    if temporary.exists():
        shutil.rmtree(temporary)
    temporary.mkdir(parents=True)
    return temporary


def discard_folder(folder: Path) -> None:
    """Remove a committed folder; its name is gone first, so nobody reads half of it."""
    doomed = folder.with_name(f".{folder.name}.{DISCARDED}")
    if doomed.exists():
        shutil.rmtree(doomed)
    folder.rename(doomed)
    shutil.rmtree(doomed)


def remove_leftovers(folder: Path) -> None:
    """What a process that was killed left half written, half removed or half converted."""
    for ending in LEFTOVERS:
        for path in folder.glob(f".*.{ending}"):
            shutil.rmtree(path)


def digests(folder: Path) -> dict[str, str]:
    """Relative path → SHA-256 (hex) of every file under `folder`, in name order."""
    return {
        path.relative_to(folder).as_posix(): file_digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
