"""What the loop takes while its own version moves, and what it does when an agreement is no number."""

from types import SimpleNamespace
from typing import Any

import pytest
from envfarm.errors import VersionMismatch

from learner.batch import make_batch
from learner.checkpoint import Progress
from learner.config import load
from learner.group import TakenGroup
from learner.ledger import Ledger, Record
from learner.metrics import LearnerMetrics
from learner.stream import Entry
from learner.tracing import Traces
from learner.train import Trainer
from learner.update import PassResult
from tests.support.learner_process import CONFIG
from tests.support.learner_samples import attempt, group

SETTINGS = [
    "run.id=run",
    "batch.group_size=2",
    "batch.groups_per_update=2",
    "stream.retained_groups=2",
    "run.checkpoint_every=1",
    "admission.staleness=1",
    "stream.store=redis",
]
HASHES = {2: "h2", 3: "h3", 4: "h4"}


def sampled(name: str, version: int) -> TakenGroup:
    attempts = [
        attempt(0, [1, 2], [0, 1], reward=1.0, group_id=name, version=version),
        attempt(1, [1, 3], [0, 1], reward=0.0, group_id=name, version=version),
    ]
    changes = {"policy_number": version, "policy_hash": HASHES[version]}
    return group(attempts, name, **changes)


class Stream:
    """Hands out the groups that it was given; remembers what it was told."""

    def __init__(self, groups: list[TakenGroup]):
        self.groups = {one.group_id: one for one in groups}
        self.names, self.dropped, self.buried = list(self.groups), {}, {}

    def next(self, wanted: int, stop) -> Entry:
        name = self.names.pop(0)
        return Entry(entry_id=f"{name}-0", fields={"group_id": name, "store_key": name})

    def fetch(self, entry: Entry) -> TakenGroup:
        return self.groups[entry.group_id]

    def bury(self, entry: Entry, reason: str) -> None:
        self.buried[entry.group_id] = reason

    def report_dropped(self, entry: Entry, reason: str) -> None:
        self.dropped[entry.group_id] = reason


def trainer(stream: Stream, tmp_path, **parts) -> Trainer:
    fixed: dict[str, Any] = {
        "config": load(CONFIG, SETTINGS),
        "trainee": SimpleNamespace(vocabulary=100),
        "stream": stream,
        "lease": SimpleNamespace(check=lambda: None),
        "publication": None,
        "metrics": LearnerMetrics(tmp_path / "steps.jsonl"),
        "traces": Traces(None),
        "ledger": Ledger([]),
        "progress": Progress(version=3, policies=dict(HASHES)),
        "stop": SimpleNamespace(is_set=lambda: False),
    }
    return Trainer(**{**fixed, **parts})


def test_a_version_made_while_taking_ends_what_was_at_the_limit(tmp_path):
    stream = Stream([sampled("old", 2), sampled("far", 2), sampled("new", 3), sampled("newer", 3)])
    loop = trainer(stream, tmp_path)

    def checkpoint() -> None:
        loop.ledger.mark_durable()
        loop.progress.version = 4

    loop.checkpoint_and_acknowledge = checkpoint
    real_next = stream.next

    def fills_up(wanted: int, stop) -> Entry:
        entry = real_next(wanted, stop)
        if entry.group_id == "old":
            for name in ("x", "y"):  # two that were dropped and wait for a checkpoint
                loop.ledger.add(dropped(name))
        return entry

    stream.next = fills_up
    taken = loop.take()
    assert taken is not None
    assert [one.group_id for _, one in taken] == ["new", "newer"]
    assert stream.dropped == {
        "old": "sampled from version 2, learner at 4",
        "far": "sampled from version 2, learner at 4",
    }


def dropped(name: str) -> Record:
    return Record(
        entry_id=f"{name}-0",
        group_id=name,
        fate="stale",
        reason="",
        update=1,
        store_key=name,
    )


def test_a_gap_that_is_no_number_stops_the_run_before_the_step(tmp_path):
    groups = [sampled("a", 3), sampled("b", 3)]
    result = PassResult(
        loss=float("nan"),
        mismatch_gap=float("nan"),
        forward_seconds=0.0,
        backward_seconds=0.0,
        figures={},
    )
    trainee = SimpleNamespace(vocabulary=100, forward_backward=lambda *_: result)
    stream = Stream(groups)
    loop = trainer(stream, tmp_path, trainee=trainee)
    loop.checkpoint_and_acknowledge = loop.ledger.mark_durable
    taken = loop.take()
    assert taken is not None
    with pytest.raises(VersionMismatch, match="differ by nan nats"):
        loop.step(make_batch(groups, loop.config.algorithm), taken)
    assert loop.ledger.waiting() == [] and loop.progress.update == 0
    assert stream.buried == dict.fromkeys("ab", "engine and learner differ by nan nats")
    assert stream.dropped == stream.buried
