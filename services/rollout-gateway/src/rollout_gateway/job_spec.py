"""What a job was asked to do. Frozen: the same job id always means the same contents."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from envfarm.errors import InvalidArgument
from envfarm.ids import group_id

from rollout_gateway.chat_dialogue import INTERFACE

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
MAX_GROUPS = 1_000_000
MAX_STALENESS = 4
MAX_SHARE = 1000


class JobKind(StrEnum):
    TRAIN = "train"
    PROBE = "probe"
    EVAL = "eval"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSpec:
    """Fields as in SubmitJobRequest, with its defaults filled in."""

    job_id: str
    run_id: str
    task_ids: tuple[str, ...]
    groups_per_task: int = 0
    group_size: int = 8
    publish: bool = False
    keep_zero_variance: bool = False
    kind: JobKind = JobKind.PROBE
    seed: int = 0
    slot_mode: str = ""
    """fresh, reuse, or empty for the gateway's own."""
    staleness: int = 1
    groups_per_update: int = 0
    updates: int = 0
    updates_per_version: int = 1
    max_replacements: int = 0
    policy_run: str = ""
    policy_number: int | None = None
    """Set when the job samples under one version only."""
    policy_hash: str = ""
    share: int = 1
    interface: str = ""
    """chat, or empty for our engines."""
    reband_after: int = 0
    """Of a stream: attempts with a reward after which a task's band is looked at again; 0: never."""

    @property
    def is_stream(self) -> bool:
        """Groups for a learner until it has enough; otherwise a list of groups."""
        return self.groups_per_update > 0

    @property
    def groups_total(self) -> int:
        """Groups owed; 0 when the stream has no end."""
        if self.is_stream:
            return self.updates * self.groups_per_update
        return len(self.task_ids) * self.groups_per_task

    def check(self) -> None:
        """InvalidArgument with what is wrong."""
        for what, name in (("job_id", self.job_id), ("run_id", self.run_id)):
            if not NAME.fullmatch(name):
                raise InvalidArgument(
                    f"{what} {name!r}: letters, digits, '.', '_' and '-', at most 80, are allowed"
                )
        if not self.task_ids:
            raise InvalidArgument("a job needs at least one task")
        if len(set(self.task_ids)) != len(self.task_ids):
            raise InvalidArgument("a job names each task once; use groups_per_task for more groups")
        if not 1 <= self.group_size <= 1024:
            raise InvalidArgument(f"group_size {self.group_size} is not within 1 to 1024")
        if not 1 <= self.share <= MAX_SHARE:
            raise InvalidArgument(f"share {self.share} is not within 1 to {MAX_SHARE}")
        if self.groups_total > MAX_GROUPS:
            raise InvalidArgument(f"a job has at most {MAX_GROUPS} groups")
        if self.is_stream:
            self._check_stream()
        elif self.groups_per_task < 1:
            raise InvalidArgument("a list needs groups_per_task, a stream groups_per_update")
        elif self.reband_after:
            raise InvalidArgument("reband_after belongs to a stream: a list keeps its tasks")
        elif self.updates:
            raise InvalidArgument("updates belongs to a stream: set groups_per_update too")
        if self.publish and self.kind is not JobKind.TRAIN:
            raise InvalidArgument(f"only a job of kind train is published, not {self.kind}")
        if self.interface not in ("", INTERFACE):
            raise InvalidArgument(f"interface {self.interface!r} is neither tokens nor chat")
        if self.interface and (self.publish or self.policy_number is not None):
            raise InvalidArgument("a chat endpoint has no versions and samples nothing to train on")
        if self.publish and self.policy_number is not None and self.policy_run != self.run_id:
            raise InvalidArgument("a learner takes groups of its own run's versions only")

    def _check_stream(self) -> None:
        if not self.publish:
            raise InvalidArgument("groups_per_update is for kind train: a stream feeds a learner")
        if self.groups_per_task:
            raise InvalidArgument("a stream goes over its tasks as often as it takes: leave "
                                  "groups_per_task out")  # fmt: skip
        if not 0 <= self.staleness <= MAX_STALENESS:
            raise InvalidArgument(f"staleness {self.staleness} is not within 0 to {MAX_STALENESS}")
        if 0 < self.reband_after < self.group_size:
            raise InvalidArgument(
                f"reband_after {self.reband_after} is less than one group of {self.group_size}"
            )
        if self.updates_per_version < 1:
            raise InvalidArgument("updates_per_version is at least 1")
        if self.policy_number is not None:
            raise InvalidArgument("a stream follows the learner and cannot be held at one version")

    def groups(self) -> Iterator[tuple[str, str]]:
        """(group id, task id) of a list's groups; the same in every process that runs the job."""
        pairs = [
            (group_id(self.job_id, index, number), task_id)
            for index, task_id in enumerate(self.task_ids)
            for number in range(self.groups_per_task)
        ]
        if self.seed:
            random.Random(f"{self.seed}:list").shuffle(pairs)
        yield from pairs

    def repetition(self, group: str, slot: int) -> int:
        """Number of an attempt's repetition of its task, from 0 over all groups of the task."""
        return int(group.rpartition(".")[2]) * self.group_size + slot
