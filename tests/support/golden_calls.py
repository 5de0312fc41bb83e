"""The golden calls of a domain's tasks: for a test, arguments with ids of records that exist."""

from pathlib import Path
from typing import Any

import yaml

DOMAINS = Path(__file__).parents[2] / "domains"


class GoldenCalls:
    def __init__(self, domain: str):
        self.slugs = sorted(path.stem for path in (DOMAINS / domain / "private").iterdir())
        self._folder = DOMAINS / domain / "private"

    def of(self, slug: str) -> list[dict[str, Any]]:
        """The calls of one task, in order: `tool` and `arguments`."""
        text = (self._folder / f"{slug}.yaml").read_text()
        return yaml.load(text, yaml.CSafeLoader)["golden"]["actions"]

    def __call__(self, slug: str, tool: str) -> dict[str, Any]:
        """Arguments of the task's first golden call of this tool."""
        return next(call["arguments"] for call in self.of(slug) if call["tool"] == tool)
