"""An evaluation suite: a frozen list of tasks at their content hashes, with a hash of its own."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from envfarm.canonical import content_hash
from envfarm.v1 import task_pb2

from envfarm_cli.campaign.files import read_json, write_json
from envfarm_cli.failure import BadInput


@dataclass(frozen=True, slots=True)
class Suite:
    """Tasks in id order."""

    name: str
    tasks: dict[str, str]
    """Task id → content hash."""

    @property
    def hash(self) -> str:
        """SHA-256 (hex); the name does not count."""
        return content_hash(sorted(self.tasks.items()))

    def write(self, path: Path) -> None:
        write_json(path, {**asdict(self), "hash": self.hash})

    @classmethod
    def read(cls, path: Path) -> Self:
        """BadInput when the file is no suite, or not the one that its hash names."""
        value: Any = read_json(path)
        if value is None:
            raise BadInput(
                f"there is no suite {path}", hint="`envfarm eval --help` says how to make one"
            )
        if isinstance(value, dict) and "selection" in value:
            raise BadInput(
                f"{path} is a selection of training tasks, not a suite",
                hint="tasks that were chosen by results make a biased suite",
            )
        try:
            suite = cls(str(value["name"]), {str(k): str(v) for k, v in value["tasks"].items()})
            known = value["hash"]
        except (KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"{path} is no suite: {error}") from error
        if not suite.tasks or suite.hash != known:
            raise BadInput(
                f"{path}: its tasks have the hash {suite.hash[:12]}…, it says {str(known)[:12]}…",
                hint="a suite is never edited; freeze a new one",
            )
        return suite

    @classmethod
    def freeze(cls, name: str, ids: list[str], served: dict[str, task_pb2.Task]) -> Self:
        """The tasks `ids` as they are served now; BadInput when one is not."""
        missing = [task for task in ids if task not in served]
        if missing:
            raise BadInput(
                f"no env-server has {', '.join(missing[:5])}", hint="see `envfarm tasks list`"
            )
        return cls(name, {task: served[task].ref.task_hash for task in sorted(ids)})

    def check(self, served: dict[str, task_pb2.Task]) -> None:
        """BadInput when a task is not served, or with other content than the suite's."""
        changed = [
            task
            for task, known in self.tasks.items()
            if task not in served or served[task].ref.task_hash != known
        ]
        if changed:
            raise BadInput(
                f"suite {self.name}: {len(changed)} of its {len(self.tasks)} tasks are not served as "
                f"they were frozen: {', '.join(changed[:3])}",
                hint="serve the version of the domains that it was frozen with, or freeze a new suite",
            )


def choose(served: dict[str, task_pb2.Task], domain: str, tags: dict[str, str]) -> list[str]:
    """Ids of the served tasks of a domain that carry all of `tags`; BadInput when there is none."""
    found = sorted(
        task_id
        for task_id, task in served.items()
        if (not domain or task_id.startswith(f"{domain}/"))
        and all(task.tags.get(key) == value for key, value in tags.items())
    )
    if not found:
        wanted = ", ".join([domain, *(f"{key} {value}" for key, value in tags.items())])
        raise BadInput(f"no task is served that is {wanted}", hint="see `envfarm tasks list`")
    return found
