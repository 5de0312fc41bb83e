"""The learner killed with SIGKILL at random points of its loop, again and again.

A driver stands for the gateway: for every version that is announced for the first time it publishes
one group, sampled from that version's weights. An undisturbed run and one that is killed in every
round must publish, consume and train the same groups and walk the same loss curve, bit for bit.
"""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from envfarm import streams
from envfarm_common.binaries import RedisServer

from tests.support.groups import make_group, policy, publish
from tests.support.learner_process import ROOT, LearnerProcess, make_tiny_model
from tests.support.polling import wait_until
from tests.support.proof import write_proof
from tests.support.recording_gateway import RecordingGateway, score_with

ROUNDS = 50
SEED = 3
AFTER_READY_SECONDS, AFTER_START_SECONDS = 3.0, 12.0
"""A kill comes at a random moment of the loop; in a fifth of the rounds, of the start."""


@dataclass
class Side:
    """One run with everything that it needs."""

    folder: Path
    model: Path
    server: RedisServer
    client: redis.Redis
    gateway: RecordingGateway
    published: list[str]
    stop: threading.Event

    def learner(self, **more: object) -> LearnerProcess:
        return LearnerProcess(
            self.folder / "run",
            **{
                "model.path": self.model,
                "stream.redis_url": self.server.url,
                "stream.store": "dir",
                "stream.store_dir": self.folder / "store",
                "gateway.address": self.gateway.address,
                "run.keep_weights": 8,
                "run.lease_seconds": 2,
                "run.checkpoint_every": 2,
                "optimizer.lr": 1e-3,
                **more,
            },
        )

    def drive(self) -> None:
        """Publish group g<v> when version v is announced for the first time."""
        while not self.stop.wait(0.02):
            for update in list(self.gateway.updates):
                number = update.version.number
                name = f"g{number:04d}"
                if name in self.published:
                    continue
                rewards = [
                    float(random.Random(f"{number}.{slot}").random() < 0.4) for slot in range(8)
                ]
                group = make_group(
                    name,
                    rewards,
                    policy(number, update.version.weights_hash),
                    score_with(Path(update.path)),
                    seed=number,
                )
                publish(self.client, group, folder=self.folder / "store")
                self.published.append(name)

    def more_than(self, known: int) -> Callable[[], bool]:
        return lambda: len(self.gateway.updates) > known

    def ledger(self) -> list[dict]:
        return [json.loads(x) for x in (self.folder / "run/groups.jsonl").read_text().splitlines()]

    def curve(self) -> dict[int, tuple[float, float]]:
        """update → (loss, gradient norm); every line of an update must say the same."""
        found: dict[int, tuple[float, float]] = {}
        for line in (self.folder / "run/steps.jsonl").read_text().splitlines():
            step = json.loads(line)
            point = (step["loss"], step["grad_norm"])
            assert found.setdefault(step["update"], point) == point
        return found


@contextmanager
def side(folder: Path, model: Path) -> Iterator[Side]:
    (folder / "store").mkdir(parents=True)
    server, gateway = RedisServer(folder / "redis"), RecordingGateway()
    client = redis.Redis.from_url(server.url)
    made = Side(folder, model, server, client, gateway, [], threading.Event())
    driver = threading.Thread(target=made.drive, daemon=True)
    driver.start()
    try:
        yield made
    finally:
        made.stop.set()
        driver.join()
        client.close()
        gateway.stop()
        server.stop()


@pytest.mark.prove
@pytest.mark.timeout(5400)
def test_fifty_kills_lose_and_repeat_nothing_and_leave_the_loss_curve_as_it_was(tmp_path: Path):
    choice = random.Random(SEED)
    model = make_tiny_model(tmp_path / "model", ROOT / "proto/GLOSSARY.md")
    at_start = 0
    with side(tmp_path / "disturbed", model) as disturbed:
        for _ in range(ROUNDS):
            known = len(disturbed.gateway.updates)
            with disturbed.learner(**{"run.updates": 100_000}) as learner:
                if choice.random() < 0.2:
                    at_start += 1
                    time.sleep(choice.uniform(0.0, AFTER_START_SECONDS))
                else:
                    learner.wait_for("an announcement", disturbed.more_than(known))
                    time.sleep(choice.uniform(0.0, AFTER_READY_SECONDS))
                learner.kill()
        updates = max(disturbed.curve()) + 2
        with disturbed.learner(**{"run.updates": updates}) as learner:
            assert learner.wait(600) == 0, learner.stderr()
        wait_until(lambda: f"g{updates:04d}" in disturbed.published, "the last group", 60)
        found = outcome(disturbed)
    with side(tmp_path / "calm", model) as calm:
        with calm.learner(**{"run.updates": updates}) as learner:
            assert learner.wait(1800) == 0, learner.stderr()
        wait_until(lambda: f"g{updates:04d}" in calm.published, "the last group", 60)
        wanted = outcome(calm)
    write_proof(
        "learner-kills",
        {
            "seed": SEED,
            "kills": ROUNDS,
            "kills_during_start": at_start,
            "updates": updates,
            "steps_done_twice": found["lines"] - updates,
            "published": len(found["published"]),
            "consumed": found["consumed"].total(),
            "trained": found["trained"].total(),
            "equal_as_multisets": found["consumed"] == found["trained"] == found["on_redis"],
            "loss_curves_equal": found["curve"] == wanted["curve"],
            "final_weights_equal": found["weights"] == wanted["weights"],
        },
    )
    names = Counter(f"g{number:04d}" for number in range(updates))
    assert found["consumed"] == found["trained"] == found["on_redis"] == names
    assert Counter(found["published"]) == names + Counter([f"g{updates:04d}"])
    assert found["curve"] == wanted["curve"]
    assert len(found["curve"]) == updates
    assert found["weights"] == wanted["weights"]


def outcome(run: Side) -> dict:
    ledger = run.ledger()
    number, digest = max(run.gateway.versions)
    assert number == len(run.curve())
    return {
        "published": list(run.published),
        "consumed": Counter(record["group_id"] for record in ledger),
        "trained": Counter(r["group_id"] for r in ledger if r["fate"] == "trained"),
        "on_redis": Counter(
            member.decode()
            for member in run.client.smembers(streams.trained_ids("run"))  # pyright: ignore
        ),
        "curve": run.curve(),
        "lines": len((run.folder / "run/steps.jsonl").read_text().splitlines()),
        "weights": digest,
    }
