"""Tasks as an env-server serves them: choosing, freezing into a suite, facts for a selection."""

from collections.abc import Iterable

from envfarm.v1 import task_pb2

from envfarm_cli.failure import BadInput
from envfarm_numbers.benchmarks import Benchmarks, size_of
from envfarm_numbers.suite import Suite
from envfarm_numbers.task_facts import TaskFacts, text_hash

Served = dict[str, task_pb2.Task]
"""By task id."""


def choose(served: Served, domain: str, tags: dict[str, str]) -> list[str]:
    """Ids of the served tasks of a domain that carry all of `tags`; BadInput when there is none."""
    found = sorted(
        task_id
        for task_id, task in served.items()
        if (not domain or task_id.startswith(f"{domain}/"))
        and all(task.tags.get(key) == value for key, value in tags.items())
    )
    if not found:
        wanted = [f"of domain {domain}"] if domain else []
        wanted += [f"with {key}={value}" for key, value in tags.items()]
        raise BadInput(
            f"no task is served {' and '.join(wanted) or 'at all'}", hint="see `envfarm tasks list`"
        )
    return found


def choose_benchmark(served: Served, name: str) -> list[str]:
    """Ids of the served tasks of a benchmark; BadInput unless all of it is served."""
    known = Benchmarks.known()
    found = [
        task_id
        for task_id, task in sorted(served.items())
        if known.of(
            TaskFacts(
                task_id=task_id,
                task_hash=task.ref.task_hash,
                text_hash=text_hash(task.opening),
            )
        )
        == name
    ]
    whole = size_of(name)
    if len(found) != whole:
        raise BadInput(
            f"{len(found)} tasks of {name} are served, and it has {whole}",
            hint="host all of it: `envfarm import thinkingbox --worlds`, see docs/thinkingbox.md",
        )
    return found


def facts(served: Served, ids: Iterable[str]) -> dict[str, TaskFacts]:
    """What is known of tasks without running them; BadInput when one is not served."""
    wanted = list(ids)
    missing = [task for task in wanted if task not in served]
    if missing:
        raise BadInput(
            f"no env-server has {', '.join(missing[:5])}", hint="see `envfarm tasks list`"
        )
    return {
        task: TaskFacts(
            task_id=task,
            task_hash=served[task].ref.task_hash,
            world_hash=served[task].world.world_hash,
            tags=dict(served[task].tags),
            text_hash=text_hash(served[task].opening),
        )
        for task in wanted
    }


def freeze(name: str, served: Served, ids: Iterable[str]) -> Suite:
    """A suite of these tasks at the content that is served now."""
    return Suite.freeze(name, facts(served, ids).values())


def check(suite: Suite, served: Served) -> None:
    """ConfigError when a task of the suite is not served as it was frozen."""
    suite.check({task_id: task.ref.task_hash for task_id, task in served.items()})
