"""Reading attempts.jsonl: every row validated, every refusal names file, line and reason.

A campaign is one file, or a folder that holds one, or else all files of that name below the folder. A
last line without its end is one that is being written; it is counted and left out.
"""

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from envfarm.attempt_row import INTERFACES, AttemptRow
from envfarm.errors import ConfigError

FILE_NAME = "attempts.jsonl"
_HINTS = get_type_hints(AttemptRow)
_BLOCK_LINES = 128
"""Few enough that a block stays in the cache from its reading to its sums."""
_BUFFER_BYTES = 1 << 20
_MOST = 1 << 53
"""No number of a row is larger: it could not be told from its neighbour elsewhere."""
_NEWLINE = ord("\n")
_NOT_A_ROW = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(slots=True)
class Campaign:
    """The rows of one campaign, in the order in which they were written."""

    sources: list[Path]
    rows: list[AttemptRow]
    unfinished: int = 0
    """Lines that were being written."""
    places: dict[tuple[str, int, int], str] = field(default_factory=dict)
    """FILE:LINE of each (task_id, repetition, attempt)."""


class LineReader:
    """Decodes lines into records with the attributes `wanted`.

    With all attributes wanted every key of a row is checked. With fewer, the first row of a file is
    checked whole and the others in what is wanted, which is four times as fast.
    """

    def __init__(self, wanted: Iterable[str]):
        names = set(wanted)
        # Rows are written with sorted keys, and a record in their order is decoded faster.
        record = msgspec.defstruct(
            "Row",
            [(name, _checked(name)) for name in sorted(names)],
            forbid_unknown_fields=len(names) == len(fields(AttemptRow)),
            gc=False,
        )
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(record)
        self.unfinished = 0

    def blocks(
        self, path: Path, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, list[Any]]]:
        """(number of its first line, records) in pieces; ConfigError names the line that is no row.

        From one byte to another, both at ends of lines; then the lines count from `start`.
        """
        number, left = 1, math.inf if end is None else end - start
        try:
            with path.open("rb", buffering=_BUFFER_BYTES) as source:
                if start:  # a pipe cannot be sought in
                    source.seek(start)
                while left > 0 and (lines := list(islice(source, _BLOCK_LINES))):
                    left -= sum(map(len, lines))
                    while left < 0 and len(lines) > 1:
                        left += len(lines.pop())
                    if number == 1 and start == 0 and lines[0][-1] == _NEWLINE:
                        AttemptRow.from_json(lines[0].decode(), f"{path}:1")
                    if lines[-1][-1] != _NEWLINE:
                        self.unfinished += 1
                        lines.pop()
                    yield number, self._decoded(path, number, lines)
                    number += len(lines)
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}:1: {error}") from error
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error

    def numbered(self, path: Path) -> Iterator[tuple[int, Any]]:
        """(line number, record)."""
        for first, records in self.blocks(path):
            yield from enumerate(records, first)

    def _decoded(self, path: Path, first: int, lines: list[bytes]) -> list[Any]:
        decode = self._decoder.decode
        try:
            return list(map(decode, lines))
        except _NOT_A_ROW:
            for number, line in enumerate(lines, first):
                try:
                    decode(line)
                except _NOT_A_ROW as error:
                    raise _refusal(f"{path}:{number}", line, str(error)) from error
            raise


def files_of(path: Path) -> list[Path]:
    """The row files of a campaign in path order; ConfigError when there is none.

    A folder with a row file is that file alone: what lies below is what it was made from.
    """
    try:
        if not path.is_dir():
            if not path.exists():
                raise ConfigError(f"{path}: there is no such file or folder")
            return [path]
        found = sorted(_below(path))
    except OSError as error:
        raise ConfigError(f"{path} cannot be looked into: {error.strerror or error}") from error
    if not found:
        raise ConfigError(
            f"{path}: no {FILE_NAME} in this folder",
            hint="name the folder of a probe, evaluation or training job, or the file itself",
        )
    return found


def _below(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise error

    for where, names, files in os.walk(folder, onerror=refuse):
        if FILE_NAME in files:
            names.clear()
            yield Path(where, FILE_NAME)


def read_campaign(paths: Path | Iterable[Path]) -> Campaign:
    """All rows of one campaign with unique keys.

    ConfigError: a line that is no row, a key that is there twice, two rewards for one repetition.
    """
    given = [paths] if isinstance(paths, Path) else list(paths)
    campaign = Campaign([file for path in given for file in files_of(path)], [])
    reader = LineReader(f.name for f in fields(AttemptRow))
    rewarded: dict[tuple[str, int], str] = {}
    for path in campaign.sources:
        for number, record in reader.numbered(path):
            row = AttemptRow(**msgspec.structs.asdict(record))
            where, key = f"{path}:{number}", (row.task_id, row.repetition, row.attempt)
            if key in campaign.places:
                raise duplicate(where, campaign.places[key], key)
            campaign.places[key] = where
            if row.reward is not None:
                check_reward(where, row.reward)
                if (first := rewarded.setdefault(key[:2], where)) is not where:
                    raise second_reward(where, first, key)
            campaign.rows.append(row)
    campaign.unfinished = reader.unfinished
    if not campaign.rows:
        raise ConfigError(f"{campaign.sources[0]}: no row in it yet")
    return campaign


def check_reward(where: str, reward: float) -> None:
    """ConfigError unless it is 0 or 1: every figure counts passed attempts."""
    if reward not in (0.0, 1.0):
        raise ConfigError(f"{where}: reward is {reward:g}; attempts pass (1) or do not (0)")


def duplicate(where: str, first: str, key: tuple[str, int, int]) -> ConfigError:
    task, repetition, attempt = key
    return ConfigError(
        f"{where}: attempt {attempt} of repetition {repetition} of {task} is already in {first}",
        hint="two campaigns were mixed, or one file was given twice",
    )


def second_reward(where: str, first: str, key: tuple[str, int, int]) -> ConfigError:
    return ConfigError(
        f"{where}: repetition {key[1]} of {key[0]} has a reward already, in {first}",
        hint="a repetition counts once; only attempts without reward are run again",
    )


def _checked(name: str) -> Any:
    if name == "interface":
        return Literal[INTERFACES]  # pyright: ignore[reportInvalidTypeForm]
    kind = _HINTS[name]
    return Annotated[int, msgspec.Meta(ge=0, le=_MOST)] if kind is int else kind


def _refusal(where: str, line: bytes, reason: str) -> ConfigError:
    """The contract's own words where it has some, since they name the key first."""
    try:
        AttemptRow.from_json(line.decode(errors="replace"), where)
    except ConfigError as error:
        return error
    return ConfigError(f"{where}: {reason}")
