"""Whole jobs of the real scheduler, with everything outside the process played by stand-ins.

Nothing waits here, so hundreds of attempts with failures take a second; afterwards every job is lived
through again from its record. Real services are in tests/integration/gateway.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from envfarm.errors import EngineError, GraderError, LeaseExpired
from envfarm.sampling import Sampling
from envfarm.v1 import group_pb2, policy_pb2, task_pb2, verdict_pb2
from envfarm_common.metrics import Instruments

from rollout_gateway.chat.render import Renderer
from rollout_gateway.chat.vocabulary import Vocabulary
from rollout_gateway.group_run import GroupParts
from rollout_gateway.job_context import Rendering
from rollout_gateway.job_spec import JobKind, JobSpec
from rollout_gateway.job_status import job_status, slots_json
from rollout_gateway.jobs import Jobs
from rollout_gateway.policy import SampledTurn
from rollout_gateway.pool import Parking
from rollout_gateway.publish import Backlog
from rollout_gateway.readiness import Caps
from rollout_gateway.replay import replay
from rollout_gateway.rollout import Parts
from rollout_gateway.scheduler import Scheduler, StreamRules
from rollout_gateway.seats import Seats
from rollout_gateway.stages import Stages
from rollout_gateway.user import SilentUser

LIMITS = task_pb2.Limits(
    max_turns=4, max_tool_calls=4, max_turn_tokens=64, max_total_tokens=4096, max_tool_seconds=9
)
TASKS = {
    f"d/{name}": task_pb2.Task(
        ref=task_pb2.TaskRef(task_id=f"d/{name}", task_hash=name * 8),
        policy="Be kind.",
        opening="Hello.",
        limits=LIMITS,
    )
    for name in "abc"
}
SHARES = {"d/a": 0.5, "d/b": 0.0, "d/c": 0.5}
"""Of right answers, by task."""


def chance(*words: object) -> float:
    """In [0, 1), fixed by the words."""
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:4]) / 2**32


class World:
    """Engine, env-server, grader, Redis and learner of one test."""

    def __init__(self, words: Vocabulary, trouble: float):
        self.trouble = trouble
        self.renderer = Renderer(words)
        self.version = policy_pb2.PolicyVersion(run_id="r", number=0, weights_hash="w0")
        self.entries: dict[str, group_pb2.Group] = {}
        self.per_update = 2
        self.max_length = 8192
        self.is_serving, self.is_doubtful = True, False
        self.seen: list[str] = []
        """What attempts were told to do, whenever the engine was asked."""
        self.look: Any = None
        self.looks = 0
        """How often a stream looked what the learner dropped."""
        self.steps: set[str] = set()
        """Groups that the learner has trained and saved."""

    # the engine

    async def wait_until_serving(self) -> int:
        return self.max_length

    async def generate(
        self, ids: list[int], *, request_id: str, sticky: str, max_tokens: int
    ) -> SampledTurn:
        await asyncio.sleep(0)
        if self.look is not None:
            self.seen += [slot["doing"] for slot in self.look()]
        if chance("engine", request_id) < self.trouble:
            raise EngineError("planned")
        sampled = self.renderer.assistant("Good day.")
        return SampledTurn(
            ids=sampled,
            logprobs=[-0.5] * len(sampled),
            versions=[(self.version.number, len(sampled))],
            cut=False,
        )

    # the env-server

    async def tasks(self) -> dict[str, task_pb2.Task]:
        return TASKS

    @asynccontextmanager
    async def episode(
        self, task: task_pb2.TaskRef, request_id: str, waiting: Any, slot_mode: str = ""
    ) -> AsyncIterator[Any]:
        async def seal() -> None:
            if chance("seal", request_id.rpartition(".")[0]) < self.trouble:
                raise LeaseExpired("planned")

        yield SimpleNamespace(
            episode_id=f"e.{request_id}",
            initial_state_hash="i",
            task=TASKS[task.task_id],
            env_server="here",
            seal=seal,
        )

    # the grader

    async def wait_until_healthy(self) -> None: ...

    async def grade(
        self, *, request_id: str, task: task_pb2.TaskRef, **rest: str
    ) -> verdict_pb2.Verdict:
        name = request_id.rpartition(".")[0]  # without what this process adds
        if chance("grade", name) < self.trouble:
            raise GraderError("planned")
        reward = float(chance("reward", name) < SHARES[task.task_id])
        return verdict_pb2.Verdict(reward=reward, task=task, initial_state_hash="i")

    # versions, Redis, the learner

    def version_of(self, run_id: str, number: int) -> policy_pb2.PolicyVersion:
        return policy_pb2.PolicyVersion(run_id=run_id, number=number, weights_hash=f"w{number}")

    async def publish(self, group: group_pb2.Group, turn: Any) -> str:
        async with turn():
            self.entries[group.group_id] = group
        if len(self.entries) % self.per_update == 0:
            number = len(self.entries) // self.per_update
            self.version = self.version_of("r", number)
        return f"{len(self.entries)}-0"

    async def published(self, run_id: str, group_id: str = "") -> Any:
        return None if group_id else len(self.entries)

    async def backlog(self, run_id: str, limit: int) -> Backlog:
        return Backlog(0, 0)

    async def dropped(self, run_id: str) -> dict[str, str]:
        self.looks += 1
        return {}

    async def trained(self, run_id: str, group_ids: list[str]) -> bool:
        return set(group_ids) <= self.steps


class InService:
    """Versions of a world."""

    def __init__(self, world: World):
        self._world = world
        self.version = world.version_of

    @property
    def in_service(self) -> policy_pb2.PolicyVersion:
        return self._world.version

    def hold(self, holder: str, version: Any) -> AbstractAsyncContextManager[None]:
        return nullcontext()


def scheduler(world: World, folder: Path) -> Scheduler:
    instruments = Instruments("rollout-gateway")
    rollouts: Any = Parts(
        environment=world,  # pyright: ignore[reportArgumentType]
        policy=world,  # pyright: ignore[reportArgumentType]
        grader=world,  # pyright: ignore[reportArgumentType]
        users=SimpleNamespace(user=lambda *_: SilentUser(), talk=lambda _: None),  # pyright: ignore
        renderer=world.renderer,
        sampling=Sampling(),
        chat=None,
        stages=Stages(instruments),
        instruments=instruments,
        attempt_seconds=60,
    )
    parts = GroupParts(
        rollouts=rollouts,
        versions=InService(world),  # pyright: ignore[reportArgumentType]
        publisher=world,  # pyright: ignore[reportArgumentType]
        ledger=world,  # pyright: ignore[reportArgumentType]
        rendering=Rendering.of(world.renderer, folder),
        seats=Seats(16),
        attempts_per_slot=3,
        max_version_spread=1,
        clock=lambda: 7.0,
    )
    caps = Caps(undelivered_groups=64, undelivered_bytes=1 << 30)
    rules = StreamRules(parking=Parking(after=3, updates=2), oversampling=2.0)
    return Scheduler(parts, Jobs(folder / "jobs"), caps, rules)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries do not wait."""
    monkeypatch.setattr("rollout_gateway.group_run.REFILL_PAUSE_SECONDS", 0.0)


async def ended(it: Scheduler, spec: JobSpec) -> Any:
    job = await it.submit(spec)
    async with asyncio.timeout(60):
        await job.ended.wait()
    return job


async def test_a_list_with_trouble_everywhere_replays_to_the_same_groups(
    words: Vocabulary, tmp_path: Path, quick: None
):
    it = scheduler(World(words, trouble=0.1), tmp_path)
    job = await ended(
        it,
        JobSpec(
            job_id="j",
            run_id="r",
            task_ids=tuple(TASKS),
            groups_per_task=4,
            group_size=4,
            publish=True,
            kind=JobKind.TRAIN,
        ),
    )
    status = job_status(job)
    assert status.groups_published + status.groups_cancelled == 12
    assert status.refilled_samples > 5
    assert {"zero_variance"} <= set(status.cancelled)
    found = replay(job.folder)
    assert (found.deviations, found.groups) == ([], 12)
    assert found.made_again == status.groups_published


async def test_a_stream_is_decided_again_and_its_bands_follow_the_policy(
    words: Vocabulary, tmp_path: Path, quick: None
):
    world = World(words, trouble=0.05)
    it = scheduler(world, tmp_path)
    job = await ended(
        it,
        JobSpec(
            job_id="s",
            run_id="r",
            task_ids=tuple(TASKS),
            groups_per_update=2,
            updates=12,
            group_size=4,
            publish=True,
            kind=JobKind.TRAIN,
            max_replacements=8,
            reband_after=12,
        ),
    )
    assert job_status(job).state == 2, job.message  # done
    assert len(world.entries) == 24
    assert job.bands["d/b"] == "too_hard"
    assert set(job.bands.values()) <= {"too_hard", "hard", "medium", "easy", "too_easy"}
    found = replay(job.folder)
    assert found.deviations == []
    assert found.made_again == found.decided_again >= 24
    # What was published is what comes out of the record.
    hashes = {name: outcome.sha256 for name, outcome in job.record.outcomes.items()}
    for name, group in world.entries.items():
        digest = hashlib.sha256(group.SerializeToString(deterministic=True)).hexdigest()
        assert hashes[name].endswith(digest)


class SlowlyPublished(World):
    """A group is on its way out until its stream has looked three times more."""

    async def publish(self, group: group_pb2.Group, turn: Any) -> str:
        await self.looked(3)
        return await super().publish(group, turn)

    async def looked(self, times: int) -> None:
        wanted = self.looks + times
        async with asyncio.timeout(30):
            while self.looks < wanted:
                await asyncio.sleep(0)


async def test_a_stream_is_not_over_before_the_learner_trained_what_is_on_its_way_out(
    words: Vocabulary, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rollout_gateway.stream_run.POLL_SECONDS", 0.01)
    world = SlowlyPublished(words, trouble=0.0)
    world.per_update = 1000  # no version comes that would tell
    job = await scheduler(world, tmp_path).submit(
        JobSpec(
            job_id="s",
            run_id="r",
            task_ids=("d/a",),
            groups_per_update=2,
            updates=1,
            group_size=4,
            publish=True,
            kind=JobKind.TRAIN,
        )
    )
    async with asyncio.timeout(60):
        while len(world.entries) < 2:
            assert not job.ended.is_set()
            await asyncio.sleep(0)
        await world.looked(3)
        assert not job.ended.is_set()
        world.steps |= set(world.entries)
        await job.ended.wait()
    assert job_status(job).state == 2, job.message  # done


async def test_what_each_attempt_does_is_told_while_it_runs(
    words: Vocabulary, tmp_path: Path, quick: None
):
    world = World(words, trouble=0.0)
    it = scheduler(world, tmp_path)
    world.look = lambda: [slot for job in it.jobs for slot in slots_json(job)]
    job = await ended(
        it,
        JobSpec(job_id="p", run_id="r", task_ids=("d/a",), groups_per_task=1, group_size=4),
    )
    assert "generate" in world.seen
    assert slots_json(job) == []
