"""What the demo found: stages as they go by, checks, and the summary that is written down."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import redis
from envfarm import streams
from envfarm.v1 import policy_pb2
from rich.status import Status

from envfarm_cli import records
from envfarm_cli.learner_config import Overrides
from envfarm_cli.output import Output, plain

STAGES = 7


class Demo:
    """One run of the demo."""

    def __init__(self, run_id: str, folder: Path, updates: int, out: Output):
        self.run_id = run_id
        self.folder = folder
        self.gateway_state = folder / "gateway"
        self.updates = updates
        self.out = out
        self.checks: dict[str, bool] = {}
        self.notes: dict[str, Any] = {}
        self._stage = 0
        self._started = time.monotonic()

    def stage(self, title: str, line: str) -> None:
        self._stage += 1
        seconds = time.monotonic() - self._started
        self.out.say(
            f"[b]{self._stage}/{STAGES} {plain(title)}[/b]  {plain(line)}  [dim]{seconds:.0f} s[/dim]"
        )

    def working(self, text: str) -> Status:
        """A spinner while something takes its time; `with` ends it."""
        return self.out.console.status(f"[dim]{plain(text)}[/dim]")

    def note(self, name: str, value: Any) -> None:
        """A fact for the summary."""
        self.notes[name] = value

    def check(self, sentence: str, true: bool) -> None:
        """Something that must hold for the demo to succeed."""
        self.checks[sentence] = bool(true)

    def learner_overrides(self, group_size: int) -> Overrides:
        """The recipe stays as it is; the run, its length and its folder are ours."""
        return {
            "run": {
                "id": self.run_id,
                "dir": str(self.folder / "learner"),
                "updates": self.updates,
                "checkpoint_every": 1,
            },
            "batch": {"group_size": group_size, "groups_per_update": 1},
            "publish": {"every": 1},
        }

    def training(self, first_hash: str, last: policy_pb2.PolicyVersion) -> None:
        """Read what the learner wrote and compare the weights before and after."""
        steps = _read_lines(self.folder / "learner" / "steps.jsonl")
        versions = json.loads((self.gateway_state / "versions.json").read_text())
        gap = versions["gap"]
        for step in steps:
            self.out.say(
                f"  update {step['update']}: loss {step['loss']:.4g}, reward mean "
                f"{step['reward_mean']:.3g}, gradient norm {step['grad_norm']:.3g}, engine and "
                f"learner differ by {step['mismatch_gap']:.2g} nats"
            )
        self.out.say(
            f"  policy version {last.number} is in service, weights {last.weights_hash[:12]}…; "
            f"probe: engine and learner differ by {gap:.2g} nats"
        )
        self.note("steps", steps)
        self.note("probe_gap_nats", gap)
        self.note("weights", {"first": first_hash, "last": last.weights_hash})
        self.note("version_in_service", last.number)
        self.check("the optimizer moved at every update", _all_moved(steps, self.updates))
        self.check("the weights in service are new", last.weights_hash != first_hash)
        self.check("the last version is in service", last.number == self.updates)
        checkpoints = list((self.folder / "learner" / "checkpoints").glob("checkpoint-*"))
        self.check("a checkpoint is on disk", bool(checkpoints))

    def ledger(self, redis_url: str) -> None:
        """Published, consumed and trained ids, each written down by its own side."""
        published = [
            outcome.group_id
            for outcome in records.outcomes(self.gateway_state)
            if outcome.WhichOneof("end") == "published"
        ]
        lines = _read_lines(self.folder / "learner" / "groups.jsonl")
        consumed = [line["group_id"] for line in lines]
        trained = [line["group_id"] for line in lines if line["fate"] == "trained"]
        stepped = [g for step in self.notes.get("steps", []) for g in step["groups"]]
        with redis.Redis.from_url(redis_url) as client:
            waiting = client.xlen(streams.group_stream(self.run_id))
        for name, ids in (("published", published), ("consumed", consumed), ("trained", trained)):
            self.out.say(f"  {name:<10} {len(ids)}: {plain(', '.join(sorted(ids)))}")
            self.note(name, sorted(ids))
        same = Counter(published) == Counter(consumed) == Counter(trained) == Counter(stepped)
        self.check("published, consumed and trained ids are equal as multisets", same)
        self.check("as many groups as updates", len(trained) == self.updates)
        self.check("nothing is left on the stream", waiting == 0)

    def summary(self) -> dict[str, Any]:
        return {
            "ok": bool(self.checks) and all(self.checks.values()),
            "run_id": self.run_id,
            "folder": str(self.folder),
            "seconds": round(time.monotonic() - self._started, 1),
            "checks": self.checks,
            **self.notes,
        }


def _all_moved(steps: list[dict[str, Any]], updates: int) -> bool:
    return len(steps) == updates and all(step["stepped"] for step in steps)


def _read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
