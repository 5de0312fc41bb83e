"""The frames of a job's `records.bin`, for readers that are not the gateway.

A frame is kind (1 byte), length (4 bytes, big endian), message. The gateway writes them; half a
frame at the end, left by a kill or still being written, is not there yet.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.message import DecodeError

from envfarm.errors import ConfigError
from envfarm.v1 import group_pb2

FILE = "records.bin"
HEAD = struct.Struct(">BI")
ROLLOUT = 1
"""Kind of a Rollout; every attempt that ended has one, failed ones included."""
LAST_KIND = 63
"""Kinds above are damage."""


def read_frames(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """(kind, message, offset) of every whole frame of one records.bin, in file order.

    Raises ConfigError naming the file, and the byte where it is damaged.
    """
    try:
        with path.open("rb") as file:
            offset = 0
            while len(head := file.read(HEAD.size)) == HEAD.size:
                kind, length = HEAD.unpack(head)
                if not 1 <= kind <= LAST_KIND:
                    raise ConfigError(f"{path}: no frame begins at byte {offset}")
                message = file.read(length)
                if len(message) < length:
                    return
                yield kind, message, offset
                offset += HEAD.size + length
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def read_rollouts(path: Path) -> Iterator[group_pb2.Rollout]:
    """Every whole Rollout of one records.bin, in file order; ConfigError as for its frames."""
    for kind, message, offset in read_frames(path):
        if kind == ROLLOUT:
            try:
                yield group_pb2.Rollout.FromString(message)
            except DecodeError as error:
                raise ConfigError(f"{path}: damaged at byte {offset}") from error


def record_files(folder: Path) -> list[Path]:
    """Every records.bin in `folder` and below, sorted; ConfigError when there is none."""
    if folder.is_file():
        return [folder]
    found = sorted(folder.rglob(FILE)) if folder.is_dir() else []
    if not found:
        raise ConfigError(
            f"{folder}: no {FILE} in it or below",
            hint="name the folder of a recorded job, or one above several",
        )
    return found
