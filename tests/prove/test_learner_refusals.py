"""What a run finds spoiled when it starts again, and a Redis that was away: one typed line each, or
the run goes on.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from envfarm_common.binaries import RedisServer

from tests.support.groups import make_group, policy, publish
from tests.support.learner_process import ROOT, LearnerProcess, make_tiny_model
from tests.support.recording_gateway import RecordingGateway, score_with

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]

REWARDS = [1, 0, 0, 1, 0, 0, 0, 1]


class Run:
    """A run's folder with its Redis, gateway and store."""

    def __init__(self, folder: Path, model: Path):
        self.folder, self.model, self.score = folder, model, score_with(model)
        (folder / "store").mkdir(parents=True)
        self.server = RedisServer(folder / "redis")
        self.gateway = RecordingGateway()

    def learner(self, **more: object) -> LearnerProcess:
        return LearnerProcess(
            self.folder / "run",
            **{
                "model.path": self.model,
                "stream.redis_url": self.server.url,
                "stream.store": "dir",
                "stream.store_dir": self.folder / "store",
                "gateway.address": self.gateway.address,
                "admission.staleness": 4,
                "run.keep_weights": 6,
                "run.lease_seconds": 2,
                **more,
            },
        )

    def publish(self, name: str) -> None:
        number, digest = self.gateway.versions[0]
        version = policy(number, digest)
        group = make_group(name, REWARDS, version, self.score, seed=len(name))
        with redis.Redis.from_url(self.server.url) as client:
            publish(client, group, folder=self.folder / "store")

    def announced(self, count: int) -> Callable[[], bool]:
        return lambda: len(self.gateway.updates) >= count

    def checkpoint(self) -> Path:
        (path,) = (self.folder / "run/checkpoints").glob("checkpoint-*")
        return path

    def stop(self) -> None:
        self.gateway.stop()
        self.server.stop()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("model") / "tiny", ROOT / "proto/GLOSSARY.md")


@pytest.fixture(scope="module")
def trained(model: Path, tmp_path_factory: pytest.TempPathFactory):
    """A run of one update, ended in order."""
    run = Run(tmp_path_factory.mktemp("run"), model)
    with run.learner(**{"run.updates": 1, "run.keep_checkpoints": 1}) as learner:
        learner.wait_for("the first version", run.announced(1))
        run.publish("g")
        assert learner.wait() == 0, learner.stderr()
    yield run
    run.stop()


def truncate_a_shard(run: Run) -> dict[str, object]:
    shard = max((run.checkpoint() / "state").rglob("*.pt"), key=lambda path: path.stat().st_size)
    shard.write_bytes(shard.read_bytes()[:-1000])
    return {}


def name_another_hash(run: Run) -> dict[str, object]:
    path = run.checkpoint() / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["progress"]["policies"]["1"] = "f" * 64
    path.write_text(json.dumps(manifest))
    return {}


def name_another_model(run: Run) -> dict[str, object]:
    other = make_tiny_model(run.folder / "other", ROOT / "proto/GLOSSARY.md", seed=6)
    return {"model.path": other}


def lose_a_shard(run: Run) -> dict[str, object]:
    next((run.checkpoint() / "state").rglob("*.pt")).unlink()
    return {}


def change_the_recipe(run: Run) -> dict[str, object]:
    return {"optimizer.lr": 1e-5}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (truncate_a_shard, "its digest differs from the manifest's"),
        (lose_a_shard, ".pt: missing"),
        (name_another_hash, "but version 1 was published as ffffffffffff…"),
        (name_another_model, "began with another model"),
        (change_the_recipe, "was made by another recipe"),
    ],
)
def test_what_is_spoiled_is_refused_by_name_and_mended_it_goes_on(
    trained: Run, tmp_path: Path, spoil: Callable[[Run], dict[str, object]], words: str
):
    kept, run_dir = tmp_path / "kept", trained.folder / "run"
    shutil.copytree(run_dir / "checkpoints", kept)
    known = len(trained.gateway.updates)
    settings = {"run.updates": 1, "run.keep_checkpoints": 1}
    with trained.learner(**{**settings, **spoil(trained)}) as learner:
        assert learner.wait() == 1
    last = learner.stderr().strip().splitlines()[-1]
    assert last.startswith("error: CheckpointError: ")
    assert words in last
    assert len(trained.gateway.updates) == known, "nothing may be announced"
    shutil.rmtree(run_dir / "checkpoints")
    shutil.copytree(kept, run_dir / "checkpoints")
    with trained.learner(**settings) as learner:
        assert learner.wait() == 0, learner.stderr()
    assert trained.gateway.versions[-1][0] == 1


def test_a_redis_that_is_killed_and_comes_back_loses_nothing(model: Path, tmp_path: Path):
    run = Run(tmp_path / "run", model)
    try:
        with run.learner(**{"run.updates": 2, "run.lease_seconds": 60}) as learner:
            learner.wait_for("the first version", run.announced(1))
            run.publish("g")
            learner.wait_for("the second version", run.announced(2))
            run.server.process.kill()
            run.server.process.wait()
            run.server = RedisServer(
                tmp_path / "run/redis", port=run.server.port, password=run.server.password
            )
            run.publish("gg")
            assert learner.wait() == 0, learner.stderr()
        assert learner.trained() == ["g", "gg"]
    finally:
        run.stop()


def test_a_redis_that_stays_away_ends_the_run_in_one_line(model: Path, tmp_path: Path):
    run = Run(tmp_path / "run", model)
    try:
        with run.learner(**{"run.updates": 2}) as learner:
            learner.wait_for("the first version", run.announced(1))
            run.server.process.kill()
            assert learner.wait() == 1
        last = learner.stderr().strip().splitlines()[-1]
        assert last.startswith(("error: FencedError: ", "error: StreamError: "))
    finally:
        run.stop()
