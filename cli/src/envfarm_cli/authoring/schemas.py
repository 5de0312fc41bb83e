"""JSON Schemas of a domain's YAML files, made from the models that the services load them with.

They lie in `<domains>/.schemas/`, where the first line of a file names one for editors. They say the
shape; what only a program can see (ids after file names, regular expressions, sums) the services
and `envfarm tasks lint` say.
"""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from env_server.world import TaskFile, WorldFile
from grader.checkset import CheckFile
from rollout_gateway.user import UserScript

FOLDER = ".schemas"
PARTS: dict[str, tuple[type[BaseModel], str]] = {
    "world": (WorldFile, "*/world/world.yaml"),
    "task": (TaskFile, "*/world/tasks/*.yaml"),
    "user": (UserScript, "*/user/*.yaml"),
    "private": (CheckFile, "*/private/*.yaml"),
}
"""Part → its model, and where its files lie in a folder of domains."""
_DIALECT = "http://json-schema.org/draft-07/schema#"
"""The one that editors check YAML with."""


def schema(part: str) -> dict[str, Any]:
    """The JSON Schema of one part."""
    model, _ = PARTS[part]
    shape = model.model_json_schema(by_alias=True)
    return {"$schema": _DIALECT, **_without_regex_format(shape)}


def _without_regex_format(value: Any) -> Any:
    # The format means JavaScript's expressions, and ours may begin with (?i).
    if isinstance(value, dict):
        pairs: dict[str, Any] = value
        return {
            key: _without_regex_format(item)
            for key, item in pairs.items()
            if (key, item) != ("format", "regex")
        }
    if isinstance(value, list):
        items: list[Any] = value
        return [_without_regex_format(item) for item in items]
    return value


def schema_text(part: str) -> str:
    return json.dumps(schema(part), indent=2, ensure_ascii=False) + "\n"


def stale_schemas(domains: Path) -> dict[Path, str]:
    """Files of `domains/.schemas/` that are missing or old, with what they should hold."""
    wanted = {domains / FOLDER / f"{part}.json": schema_text(part) for part in PARTS}
    return {path: text for path, text in wanted.items() if _text(path) != text}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
