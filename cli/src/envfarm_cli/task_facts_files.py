"""What is known of the tasks of a folder of domains, as the env-server reads and hashes them."""

from pathlib import Path

from envfarm_cli.domain_files import find_task, find_tasks, read_yaml
from envfarm_cli.failure import BadInput
from envfarm_numbers.task_facts import TaskFacts, golden_hash, text_hash


def read_facts(
    domains: Path, *, domain: str = "", tags: dict[str, str] | None = None
) -> dict[str, TaskFacts]:
    """Task id → facts, of one domain or all, with all of `tags`; BadInput when there is no task."""
    # Loading a catalog imports the worlds' tools, which takes a second that --help need not wait.
    from env_server.world import load_catalog

    files = {found.task_id: found for found in find_tasks(domains, domain)}
    catalog = load_catalog(domains)
    facts: dict[str, TaskFacts] = {}
    for task_id, task in catalog.tasks.items():
        if task_id not in files or any(task.tags.get(k) != v for k, v in (tags or {}).items()):
            continue
        private = files[task_id].private
        golden = (read_yaml(private).get("golden") or {}) if private.exists() else {}
        actions = golden.get("actions") or []
        facts[task_id] = TaskFacts(
            task_id=task_id,
            task_hash=task.task_hash,
            world_hash=task.world.world_hash,
            tags=dict(task.tags),
            text_hash=text_hash(task.opening),
            golden_hash=golden_hash(task.world.world_hash, actions) if actions else "",
        )
    if not facts:
        wanted = "".join(f" with {key}={value}" for key, value in (tags or {}).items())
        raise BadInput(
            f"no task{wanted} in {domains / domain if domain else domains}",
            hint="see `envfarm tasks list`",
        )
    return facts


def facts_of(domains: Path, ids: list[str]) -> list[TaskFacts]:
    """Those of the named tasks; BadInput, with near names, when there is none of a name."""
    for task_id in ids:
        find_task(domains, task_id)
    facts = read_facts(domains)
    return [facts[task_id] for task_id in ids]
