"""What is known of the tasks of a folder of domains, as the env-server reads and hashes them."""

from collections.abc import Iterable
from pathlib import Path

from envfarm_cli.domain_files import find_task, find_tasks, read_yaml
from envfarm_cli.failure import BadInput
from envfarm_numbers.task_facts import TaskFacts, golden_hash, text_hash


def read_facts(
    domains: Path, names: Iterable[str] = (), *, tags: dict[str, str] | None = None
) -> dict[str, TaskFacts]:
    """Task id → facts of the named domains, or of all, with all of `tags`; BadInput when there is
    no task. Other domains are not opened, so a broken one harms nobody else's."""
    # Loading a world imports its tools, which takes a moment that --help need not wait.
    from env_server.world import load_task, load_world

    chosen = sorted(set(names)) or [""]
    facts: dict[str, TaskFacts] = {}
    worlds = {}
    for files in (found for name in chosen for found in find_tasks(domains, name)):
        if files.domain not in worlds:
            worlds[files.domain] = load_world(domains / files.domain / "world")
        world = worlds[files.domain]
        task = load_task(files.public, world)
        if any(task.tags.get(key) != value for key, value in (tags or {}).items()):
            continue
        golden = (read_yaml(files.private).get("golden") or {}) if files.private.exists() else {}
        actions = golden.get("actions") or []
        facts[task.task_id] = TaskFacts(
            task_id=task.task_id,
            task_hash=task.task_hash,
            world_hash=world.world_hash,
            tags=dict(task.tags),
            text_hash=text_hash(task.opening),
            golden_hash=golden_hash(world.world_hash, actions) if actions else "",
        )
    if not facts:
        wanted = "".join(f" with {key}={value}" for key, value in (tags or {}).items())
        raise BadInput(
            f"no task{wanted} in {', '.join(str(domains / name) for name in chosen)}",
            hint="see `envfarm tasks list`",
        )
    return facts


def facts_of(domains: Path, ids: list[str]) -> list[TaskFacts]:
    """Those of the named tasks; BadInput, with near names, when there is none of a name."""
    facts = read_facts(domains, {find_task(domains, task_id).domain for task_id in ids})
    return [facts[task_id] for task_id in ids]


def known_domains(domains: Path, ids: Iterable[str]) -> set[str]:
    """The domains of these tasks that are in the folder."""
    return {
        name
        for name in {task_id.partition("/")[0] for task_id in ids}
        if (domains / name / "world").is_dir()
    }
