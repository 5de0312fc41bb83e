"""Answers of the judge by the content of what it was asked."""

import json
from collections import OrderedDict
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Literal

from envfarm.canonical import canonical_json
from envfarm.errors import ConfigError

Word = Literal["yes", "no"]
_IN_MEMORY = 50_000


class AnswerCache:
    """In memory, and in a folder when one is given, so that answers outlive the process."""

    def __init__(self, folder: Path | None = None):
        self._folder = folder
        self._known: OrderedDict[str, Word] = OrderedDict()

    def get(self, key: str) -> Word | None:
        found = self._known.get(key)
        if found is None and self._folder is not None:
            found = _read(self._path(key), key)
            if found is not None:
                self._remember(key, found)
        return found

    def put(self, key: str, answer: Word) -> None:
        """ConfigError when the folder cannot take it."""
        self._remember(key, answer)
        if self._folder is None:
            return
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
                file.write(canonical_json({"key": key, "answer": answer}))
            Path(file.name).replace(path)
        except OSError as error:
            raise ConfigError(
                f"the judge's cache {path.parent} cannot be written: {error}"
            ) from error

    def _remember(self, key: str, answer: Word) -> None:
        self._known[key] = answer
        while len(self._known) > _IN_MEMORY:
            self._known.popitem(last=False)

    def _path(self, key: str) -> Path:
        assert self._folder is not None
        return self._folder / key[:2] / f"{key}.json"


def _read(path: Path, key: str) -> Word | None:
    """A torn or foreign file is no answer: the judge is asked again."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    match value:
        case {"key": str(stored), "answer": "yes" | "no" as answer} if stored == key:
            return answer
        case _:
            return None
