"""Reading a domain's files for people and scripts; the services check them for themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envfarm.errors import ConfigError
from envfarm_common import strict_yaml

from envfarm_cli.failure import BadInput


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """The three files of one task."""

    task_id: str
    domain: str
    public: Path
    user: Path
    private: Path


def find_domains(domains: Path, only: Sequence[str] = ()) -> list[str]:
    """Names of all domains, or of `only` these, sorted; BadInput when one is not there."""
    if not domains.is_dir():
        raise BadInput(
            f"there is no folder of domains at {domains}",
            hint="run envfarm in its repository, or give --domains",
        )
    names = sorted(path.parent.name for path in domains.glob("*/world"))
    for name in only:
        if name not in names:
            raise BadInput(
                f"there is no domain {name!r} in {domains}",
                hint=f"domains are: {', '.join(names) or 'none'}",
            )
    return sorted(set(only)) or names


def linked_domains(folder: Path, domains: Path, only: Sequence[str]) -> Path:
    """`folder`, made anew with a link to each of `only` these domains, for what serves all it sees."""
    folder.mkdir(parents=True, exist_ok=True)
    for link in folder.iterdir():
        link.unlink()
    for name in only:
        (folder / name).symlink_to(domains / name)
    return folder


def find_tasks(domains: Path, domain: str = "") -> list[TaskFiles]:
    """All tasks in id order; BadInput when there is no such folder or domain."""
    found = []
    for name in find_domains(domains, [domain] if domain else []):
        root = domains / name
        found += [
            TaskFiles(
                f"{name}/{path.stem}",
                name,
                path,
                root / "user" / path.name,
                root / "private" / path.name,
            )
            for path in sorted((root / "world" / "tasks").glob("*.yaml"))
        ]
    return found


def find_task(domains: Path, task_id: str) -> TaskFiles:
    """BadInput, with near names, when there is no such task."""
    import difflib

    tasks = {task.task_id: task for task in find_tasks(domains)}
    if task_id not in tasks:
        near = difflib.get_close_matches(task_id, tasks, n=3, cutoff=0.5)
        raise BadInput(
            f"there is no task {task_id!r} in {domains}",
            hint=f"did you mean {' or '.join(near)}?" if near else "see `envfarm tasks list`",
        )
    return tasks[task_id]


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in `path`; BadInput names file and line."""
    if not path.exists():
        raise BadInput(f"{path} is missing")
    try:
        value = strict_yaml.read(path)
    except ConfigError as error:
        raise BadInput(error.message, hint="correct that line") from error
    if not isinstance(value, dict):
        raise BadInput(f"{path}:1: a mapping of keys is expected")
    return value
