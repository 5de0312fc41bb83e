"""The stages of a campaign: each is done once, whatever is killed and when.

stages.json holds one record per stage, replaced whole. A stage is done when its result lies in
results/<name>.json and the record names that file's digest. It is skipped only while its inputs
(the recipe and the results that it needs) and its files are exactly those of the record; anything
else does it again. A kill between result and record does it again as well, so the work of a stage
must find what it did before: jobs carry ids that are made from the campaign's name, and the gateway
answers the same id with the same job.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from envfarm.canonical import content_hash

from envfarm_cli.campaign.files import digest, read_json, write_json
from envfarm_cli.failure import BadInput

RUNNING, DONE = "running", "done"
BEAT_SECONDS = 5.0


@dataclass(slots=True)
class Record:
    """One stage as stages.json knows it."""

    state: str = RUNNING
    inputs: str = ""
    """Hash of what the stage works from."""
    starts: int = 0
    seconds: float = 0.0
    """Spent in all its starts; up to 5 s less after a kill."""
    ended_at: float = 0.0
    """Unix seconds."""
    files: dict[str, str] = field(default_factory=dict)
    """Path inside the folder → SHA-256 (hex)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """What is to be done once."""

    name: str
    needs: tuple[str, ...] = ()
    """Stages whose results decide this one's."""
    work: Callable[[], dict[str, Any]]
    """Does it and gives the result, plain JSON."""
    files: tuple[Path, ...] = ()
    """Further files that the work leaves behind and later stages read."""


class Stages:
    """The durable state of one campaign's stages."""

    def __init__(self, folder: Path, recipe_hash: str):
        self._folder = folder
        self._path = folder / "stages.json"
        self._recipe_hash = recipe_hash
        self._records = self._read()
        self._running: tuple[str, float] | None = None
        self._written_at = 0.0

    @property
    def seconds(self) -> dict[str, float]:
        """Time spent by stage, in the order of their first start."""
        return {name: round(record.seconds, 1) for name, record in self._records.items()}

    def starts(self, name: str) -> int:
        return self._records[name].starts if name in self._records else 0

    def is_done(self, name: str, needs: tuple[str, ...] = ()) -> bool:
        """Whether `run` would skip this stage: its record, inputs and files are all as they were."""
        record = self._records.get(name)
        return (
            record is not None
            and record.state == DONE
            and record.inputs == self._inputs(name, needs)
            and all(digest(self._folder / path) == known for path, known in record.files.items())
        )

    def result(self, name: str) -> dict[str, Any]:
        """The result of a stage that is done."""
        return read_json(self._result(name))

    def run(self, stage: Stage) -> dict[str, Any]:
        """The stage's result: of earlier, when it is done, else of now."""
        missing = [name for name in stage.needs if self._digest_of(name) is None]
        if missing:
            raise ValueError(f"{stage.name} needs {', '.join(missing)} first")
        if self.is_done(stage.name, stage.needs):
            return self.result(stage.name)
        with self.timed(stage.name) as record:
            record.state, record.inputs = RUNNING, self._inputs(stage.name, stage.needs)
            record.files = {}
            self._write()
            value = stage.work()
            write_json(self._result(stage.name), value)
            paths = [self._result(stage.name), *stage.files]
            record.files = {
                str(path.relative_to(self._folder)): _known(digest(path), path) for path in paths
            }
            self.beat(force=True)
            record.state, record.ended_at = DONE, time.time()
            self._write()
        return self.result(stage.name)

    def timed(self, name: str) -> "_Timed":
        """Count the time of a block under `name`; also for work that no file remembers."""
        return _Timed(self, name)

    def beat(self, *, force: bool = False) -> None:
        """Note the time spent so far; called often, written every few seconds."""
        if self._running is None:
            return
        now = time.monotonic()
        name, since = self._running
        if force or now - since >= BEAT_SECONDS:
            self._records[name].seconds += now - since
            self._running = (name, now)
            self._write()

    def begin(self, name: str) -> Record:
        record = self._records.setdefault(name, Record())
        record.starts += 1
        self._running = (name, time.monotonic())
        return record

    def end(self) -> None:
        self.beat(force=True)
        self._running = None

    def _inputs(self, name: str, needs: tuple[str, ...]) -> str:
        return content_hash([self._recipe_hash, name, [self._digest_of(need) for need in needs]])

    def _digest_of(self, name: str) -> str | None:
        record = self._records.get(name)
        if record is None or record.state != DONE:
            return None
        return content_hash(record.files)

    def _result(self, name: str) -> Path:
        return self._folder / "results" / f"{name}.json"

    def _read(self) -> dict[str, Record]:
        value = read_json(self._path)
        if value is None:
            return {}
        try:
            return {name: Record(**record) for name, record in value["stages"].items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise BadInput(
                f"{self._path} is damaged: {error}", hint="put it aside; its stages are done again"
            ) from error

    def _write(self) -> None:
        stages = {name: asdict(record) for name, record in self._records.items()}
        write_json(self._path, {"recipe_hash": self._recipe_hash, "stages": stages})


class _Timed:
    def __init__(self, stages: Stages, name: str):
        self._stages, self._name = stages, name

    def __enter__(self) -> Record:
        return self._stages.begin(self._name)

    def __exit__(self, *_: object) -> None:
        self._stages.end()


def _known(found: str | None, path: Path) -> str:
    if found is None:
        raise BadInput(f"{path} was to be there when its stage ended, and is not")
    return found
