"""What lint says of a task."""

from dataclasses import dataclass
from typing import Any, Literal

from envfarm_cli.authoring.task_text import TaskText


@dataclass(frozen=True, slots=True)
class Finding:
    task: str
    level: Literal["error", "warning"]
    code: str
    message: str


def checks_of(task: TaskText) -> list[dict[str, Any]]:
    """The checks of a private file, as they stand."""
    return list(task.private.get("checks") or [])
