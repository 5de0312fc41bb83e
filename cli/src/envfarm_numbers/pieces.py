"""Large row files, read by several processes at once: each takes some lines, and all become columns.

As a program this is one of those processes: pieces in, columns out.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from envfarm.errors import ConfigError

from envfarm_numbers.columns import WANTED, Columns, Part
from envfarm_numbers.rows import LineReader

LEAST_BYTES = 32 << 20
"""What a process must have to read; starting one costs as much time as some ten megabytes."""


class Piece(NamedTuple):
    """Whole lines of a file, from one byte up to another."""

    path: str
    start: int = 0
    end: int | None = None
    """None: what there is, and what is written meanwhile."""


class Share(msgspec.Struct, frozen=True):
    """What one process has read, in MessagePack on its way."""

    rows: list[int]
    """Of each piece."""
    names: list[str]
    origins: list[tuple[str, ...]]
    values: list[bytes]
    """Of Part, one column after the other; eight bytes a row."""

    @property
    def part(self) -> Part:
        *numbers, reward = self.values
        columns = [np.frombuffer(column, np.int64) for column in numbers]
        return Part(self.names, self.origins, (*columns, np.frombuffer(reward, np.float64)))


def read_columns(files: Sequence[Path]) -> Columns:
    """Of all rows of the files. ConfigError: a line that is no row, no row at all, and as
    `Columns.close`; always for the first line or row that is wrong."""
    starts: list[tuple[int, str]] = []

    def place(index: int) -> str:
        start, path = max(known for known in starts if known[0] <= index)
        return f"{path}:{index - start + 1}"

    columns, rows = Columns(place), 0
    shares = _shares(files, len(os.sched_getaffinity(0)))
    read = _read_at_once(shares)
    if read is None:
        shares = [_whole(files)]
        read = [_read(shares[0])]
    for pieces, share in zip(shares, read, strict=True):
        columns.add_part(share.part)
        for piece, count in zip(pieces, share.rows, strict=True):
            if count and piece.start == 0:
                starts.append((rows, piece.path))
            rows += count
    if not rows:
        raise ConfigError(f"{files[0]}: no row in it yet")
    columns.close()
    return columns


def _shares(files: Sequence[Path], processes: int) -> list[list[Piece]]:
    """The files in their order, cut at ends of lines into about equal shares; one where they are
    small, or where one of them can be read only here and only once, as a pipe."""
    try:
        sizes = [path.stat().st_size for path in files]
        processes = min(processes, sum(sizes) // LEAST_BYTES)
        if processes < 2 or not all(path.is_file() for path in files):
            return [_whole(files)]
        return _cut(files, sizes, processes)
    except OSError:
        return [_whole(files)]  # its reader says which file it is


def _whole(files: Sequence[Path]) -> list[Piece]:
    return [Piece(str(path)) for path in files]


def _cut(files: Sequence[Path], sizes: Sequence[int], processes: int) -> list[list[Piece]]:
    target = -(-sum(sizes) // processes)
    shares: list[list[Piece]] = [[]]
    room = target
    for path, size in zip(files, sizes, strict=True):
        start = 0
        while size - start > room and len(shares) < processes:
            end = _line_end(path, start + room)
            if end >= size:
                break
            shares[-1].append(Piece(str(path), start, end))
            shares.append([])
            start, room = end, target
        shares[-1].append(Piece(str(path), start))
        room = max(0, room - (size - start))
    return shares


def _line_end(path: Path, position: int) -> int:
    """Where the line ends that holds the byte at `position`."""
    with path.open("rb") as source:
        source.seek(position)
        source.readline()
        return source.tell()


def _read_at_once(shares: list[list[Piece]]) -> list[Share] | None:
    """The first share here, each other one in a process of its own.

    None where one of those came to nothing, a wrong line among them: read in one piece, the file
    refuses its first wrong line by its number. ConfigError for one in the first share.
    """
    try:
        with ExitStack() as stack:
            others = [stack.enter_context(_reader(pieces)) for pieces in shares[1:]]
            found = [_read(shares[0])]
            for other in others:
                assert other.stdout is not None
                found.append(msgspec.msgpack.decode(other.stdout.read(), type=Share))
            return found
    except (OSError, msgspec.DecodeError):
        return None


@contextmanager
def _reader(pieces: list[Piece]) -> Iterator[subprocess.Popen[bytes]]:
    """In a group of its own, so that an interrupt from the keyboard is its parent's alone."""
    with subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,
    ) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(pieces).encode())
            process.stdin.close()
            yield process
        finally:
            process.kill()


def _read(pieces: list[Piece]) -> Share:
    reader, columns, counts = LineReader(WANTED), Columns(str), []
    for piece in pieces:
        rows = 0
        for _, records in reader.blocks(Path(piece.path), piece.start, piece.end):
            columns.add(records)
            rows += len(records)
        counts.append(rows)
    part = columns.part()
    return Share(counts, part.names, part.origins, [column.tobytes() for column in part.values])


def main() -> None:
    """One share, from standard input to standard output; no output where a line is wrong."""
    try:
        share = _read([Piece(*piece) for piece in json.load(sys.stdin.buffer)])
    except ConfigError:
        raise SystemExit(1) from None
    sys.stdout.buffer.write(msgspec.msgpack.encode(share))


if __name__ == "__main__":
    main()
