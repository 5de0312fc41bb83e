"""The files that `envfarm tasks new` writes: a whole small domain, or one task more."""

import json
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from env_server.server_file import ForeignTool
from env_server.toolkit import Access, Tool
from envfarm_cli.authoring.typed_arguments import signature
from envfarm_cli.domain_files import TaskFiles
from envfarm_cli.failure import BadInput

TASK_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}/[a-z0-9][a-z0-9_-]*")
FILL_IN = "FILL IN"
"""Stands where an author has still to write."""
_WORLD = ("world.yaml", "schema.sql", "seed.sql", "policy.md", "tools.py")


def split_id(task_id: str) -> tuple[str, str]:
    """Domain and slug; BadInput for anything that cannot be an id."""
    if not TASK_ID.fullmatch(task_id):
        raise BadInput(
            f"{task_id!r} is no task id",
            hint="write DOMAIN/SLUG in small letters, digits, - and _: desk/extend-in-time",
        )
    domain, _, slug = task_id.partition("/")
    return domain, slug


def first_domain(domains: Path, task_id: str) -> dict[Path, str]:
    """A whole domain whose one task is right as it stands, to be changed step by step."""
    domain, slug = split_id(task_id)
    world = domains / domain / "world"
    found = {world / name: _template(name, domain=domain) for name in _WORLD}
    return found | _task(domains, domain, slug, "first_", {})


def next_task(
    domains: Path, task_id: str, tools: Mapping[str, Tool | ForeignTool]
) -> dict[Path, str]:
    """Three files with gaps, and the world's tools to choose from."""
    domain, slug = split_id(task_id)
    shown = [
        f"#   {'reads ' if tool.access is Access.READ else 'writes'} "
        + signature(tool.name, _arguments(tool))
        for tool in tools.values()
    ]
    reading = [tool.name for tool in tools.values() if tool.access is Access.READ]
    writing = [tool.name for tool in tools.values() if tool.access is Access.WRITE]
    words = {
        "tools": "\n".join(shown),
        "reading_tool": next(iter(reading + writing)),
        "writing_tool": next(iter(writing + reading)),
    }
    return _task(domains, domain, slug, "", words)


def _arguments(tool: Tool | ForeignTool) -> dict[str, Any]:
    """JSON Schema; of our own tools in the order in which they are declared."""
    if isinstance(tool, ForeignTool):
        return json.loads(tool.schema_json)
    return tool.arguments.model_json_schema()


def copied_task(domains: Path, task_id: str, like: TaskFiles) -> dict[Path, str]:
    """The three files of another task of the domain, under the new id."""
    domain, slug = split_id(task_id)
    if like.domain != domain:
        raise BadInput(f"{like.task_id} belongs to another domain than {task_id}")
    parts = dict(
        zip(_places(domains, domain, slug), (like.public, like.user, like.private), strict=True)
    )
    return {
        path: re.sub(
            rf"(?m)^(id|task): {re.escape(like.task_id)}$",
            rf"\1: {task_id}",
            source.read_text(encoding="utf-8"),
        )
        for path, source in parts.items()
    }


def _task(
    domains: Path, domain: str, slug: str, prefix: str, words: Mapping[str, str]
) -> dict[Path, str]:
    templates = (f"{prefix}{part}.yaml" for part in ("task", "user", "private"))
    return {
        path: _template(name, domain=domain, task_id=f"{domain}/{slug}", **words)
        for path, name in zip(_places(domains, domain, slug), templates, strict=True)
    }


def _places(domains: Path, domain: str, slug: str) -> tuple[Path, Path, Path]:
    root, name = domains / domain, f"{slug}.yaml"
    return root / "world/tasks" / name, root / "user" / name, root / "private" / name


def _template(name: str, **words: str) -> str:
    folder = resources.files("envfarm_cli.authoring") / "templates"
    # Under another name, as it is no module of ours.
    text = (folder / (f"{name}.txt" if name.endswith(".py") else name)).read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(f"{{{word}}}", value)
    return text
