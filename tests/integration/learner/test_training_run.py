"""A learner process on real Valkey and real DeepSpeed: what it trains, acknowledges, publishes."""

import signal
from pathlib import Path

import pytest
import redis
from envfarm import streams
from envfarm_common.binaries import RedisServer

from learner.served_folder import weights_hash
from tests.support.groups import make_group, policy, publish
from tests.support.learner_process import LearnerProcess
from tests.support.polling import wait_until
from tests.support.recording_gateway import RecordingGateway
from tests.support.redis_server import SOURCES

STREAM = streams.group_stream("run")
REWARDS = [[1, 0, 0, 1, 0, 0, 0, 1], [0, 0, 0, 1, 0, 0, 0, 0], [1, 1, 1, 0, 1, 1, 0, 1]]


class Farm:
    """What the learner sees of the rest of the system."""

    def __init__(self, server: RedisServer, client: redis.Redis, gateway, model, score, store):
        self.server, self.client, self.gateway = server, client, gateway
        self.model, self.score, self.store = model, score, store

    def overrides(self, **more: object) -> dict[str, object]:
        return {
            "model.path": self.model,
            "stream.redis_url": self.server.url,
            "stream.store": "dir",
            "stream.store_dir": self.store,
            "gateway.address": self.gateway.address,
            "admission.staleness": 4,
            "run.keep_weights": 6,
            "run.lease_seconds": 2,
            **more,
        }

    def initial_version(self):
        number, digest = self.gateway.versions[0]
        assert number == 0
        return policy(0, digest)

    def publish(self, index: int) -> str:
        """Group `g<index>`, sampled from the initial weights."""
        group = make_group(
            f"g{index}", REWARDS[index], self.initial_version(), self.score, seed=100 + index
        )
        publish(self.client, group, folder=self.store)
        return group.group_id

    def assert_nothing_is_left(self, trained: list[str]) -> None:
        """Stream, pending list and store are empty; the trained set is exactly `trained`."""
        assert self.client.xlen(STREAM) == 0
        assert self.client.xpending(STREAM, streams.CONSUMER_GROUP)["pending"] == 0  # pyright: ignore
        assert list(self.store.iterdir()) == []
        assert self.client.smembers(streams.trained_ids("run")) == {t.encode() for t in trained}


@pytest.fixture
def farm(redis_server, client, gateway, tiny_model, tiny_score, tmp_path) -> Farm:
    store = tmp_path / "store"
    store.mkdir()
    return Farm(redis_server, client, gateway, tiny_model, tiny_score, store)


def announced(farm: Farm, count: int):
    return lambda: len(farm.gateway.updates) >= count


@pytest.fixture(scope="session")
def undisturbed(tiny_model, tiny_score, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Hash of the weights after three updates without any trouble."""
    folder = tmp_path_factory.mktemp("calm")
    (folder / "store").mkdir()
    server, gateway = RedisServer(folder / "redis"), RecordingGateway()
    client = redis.Redis.from_url(server.url)
    farm = Farm(server, client, gateway, tiny_model, tiny_score, folder / "store")
    try:
        with LearnerProcess(folder / "run", **farm.overrides(**{"run.updates": 3})) as learner:
            learner.wait_for("the first version", announced(farm, 1))
            ids = [farm.publish(i) for i in range(3)]
            assert learner.wait() == 0, learner.stderr()
            assert learner.trained() == ids
            farm.assert_nothing_is_left(ids)
        assert [number for number, _ in gateway.versions] == [0, 1, 2, 3]
        return gateway.versions[-1][1]
    finally:
        client.close()
        gateway.stop()
        server.stop()


@pytest.mark.parametrize("redis_server", SOURCES, indirect=True)
def test_two_groups_move_the_weights_and_are_acknowledged(farm: Farm, tmp_path: Path):
    overrides = farm.overrides(**{"run.updates": 2, "stream.store": "redis"})
    del overrides["stream.store_dir"]
    with LearnerProcess(tmp_path / "run", **overrides) as learner:
        learner.wait_for("the first version", announced(farm, 1))
        for index in range(2):
            group = make_group(
                f"g{index}", REWARDS[index], farm.initial_version(), farm.score, seed=index
            )
            publish(farm.client, group)
        assert learner.wait() == 0, learner.stderr()
    assert [step["update"] for step in learner.steps()] == [1, 2]
    assert all(step["stepped"] and step["grad_norm"] > 0 for step in learner.steps())
    assert learner.steps()[0]["mismatch_gap"] < 1e-5
    assert len({digest for _, digest in farm.gateway.versions}) == 3
    for update in farm.gateway.updates:
        assert weights_hash(Path(update.path)) == update.version.weights_hash
    farm.assert_nothing_is_left(["g0", "g1"])
    assert farm.client.keys("envfarm:run:group:*") == []
    assert learner.trained() == ["g0", "g1"]
    assert not farm.client.exists(streams.learner_lease("run"))
    assert (learner.run_dir / "stdout.log").read_text() == ""


def test_a_kill_between_step_and_checkpoint_trains_the_lost_groups_again(
    farm: Farm, undisturbed: str, tmp_path: Path
):
    overrides = farm.overrides(**{"run.updates": 3, "run.checkpoint_every": 3})
    with LearnerProcess(tmp_path / "run", **overrides) as learner:
        learner.wait_for("the first version", announced(farm, 1))
        ids = [farm.publish(0), farm.publish(1)]
        learner.wait_for("two steps", lambda: len(learner.steps()) == 2)
        learner.kill()
        assert learner.checkpoints() == []
        assert learner.trained() == []
    with LearnerProcess(tmp_path / "run", **overrides) as learner:
        ids.append(farm.publish(2))
        assert learner.wait() == 0, learner.stderr()
        assert learner.trained() == sorted(ids)
    farm.assert_nothing_is_left(ids)
    assert farm.gateway.versions[-1] == (3, undisturbed)


def test_a_kill_between_checkpoint_and_acknowledgement_trains_nothing_again(
    farm: Farm, undisturbed: str, tmp_path: Path
):
    overrides = farm.overrides(**{"run.updates": 3})
    with LearnerProcess(tmp_path / "run", **overrides) as learner:
        learner.wait_for("the first version", announced(farm, 1))
        ids = [farm.publish(0)]
        learner.wait_for("delivery", lambda: pending(farm.client) == 1)
        farm.server.process.send_signal(signal.SIGSTOP)
        try:
            learner.wait_for("the checkpoint", lambda: len(learner.checkpoints()) == 1)
            learner.kill()
        finally:
            farm.server.process.send_signal(signal.SIGCONT)
    assert pending(farm.client) == 1, "the acknowledgement must have been lost"
    assert not farm.client.exists(streams.trained_ids("run"))
    with LearnerProcess(tmp_path / "run", **overrides) as learner:
        ids += [farm.publish(1), farm.publish(2)]
        assert learner.wait() == 0, learner.stderr()
        assert learner.trained() == ids
        assert [step["groups"] for step in learner.steps()] == [["g0"], ["g1"], ["g2"]]
    farm.assert_nothing_is_left(ids)
    assert farm.gateway.versions[-1] == (3, undisturbed)


def test_a_group_that_cannot_be_trained_on_ends_with_its_reason(farm: Farm, tmp_path: Path):
    with LearnerProcess(tmp_path / "run", **farm.overrides(**{"run.updates": 1})) as learner:
        learner.wait_for("the first version", announced(farm, 1))
        version = farm.initial_version()
        foreign = make_group("foreign", REWARDS[0], policy(0, "f" * 64), farm.score, seed=1)
        short = make_group("short", REWARDS[0][:7], version, farm.score, seed=2)
        torn = make_group("torn", REWARDS[0], version, farm.score, seed=3)
        good = make_group("good", REWARDS[0], version, farm.score, seed=4)
        publish(farm.client, foreign, folder=farm.store)
        publish(farm.client, short, folder=farm.store)
        publish(farm.client, torn, folder=farm.store, payload=b"half of i")
        for key in ("", "..", "../x", "no\0name", "n" * 5000, "absent"):
            fields = dict.fromkeys(streams.ENTRY_FIELDS, "0")
            fields |= {"v": "1", "group_id": f"lost {key[:9]}", "store_key": key}
            farm.client.xadd(STREAM, fields)  # pyright: ignore[reportArgumentType]
        farm.client.xadd(STREAM, {b"\xff\xfe": b"\x00", "group_id": "lost"})
        farm.client.xadd(STREAM, {"nothing": "known"})
        publish(farm.client, good, folder=farm.store)
        assert learner.wait() == 0, learner.stderr()
    fates = {record["group_id"]: record["fate"] for record in learner.groups()}
    lost = [name for name in fates if not name or name.startswith("lost")]
    assert len(lost) == 8
    assert {fates.pop(name) for name in lost} == {"bad"}
    assert fates == {
        "foreign": "abandoned_policy",
        "short": "bad",
        "torn": "bad",
        "good": "trained",
    }
    dead = farm.client.xrange(streams.dead_letters("run"))
    reasons = {fields.get(b"group_id"): fields[b"reason"].decode() for _, fields in dead}  # pyright: ignore
    assert reasons[b"short"] == "wrong_size"
    assert "checksum" in reasons[b"torn"]
    assert pending(farm.client) == farm.client.xlen(STREAM) == 0


def test_sigterm_between_updates_ends_cleanly_and_a_second_learner_may_start_at_once(
    farm: Farm, tmp_path: Path
):
    overrides = farm.overrides(**{"run.checkpoint_every": 5, "run.lease_seconds": 60})
    with LearnerProcess(tmp_path / "run", **overrides) as learner:
        learner.wait_for("the first version", announced(farm, 1))
        farm.publish(0)
        learner.wait_for("the second version", announced(farm, 2))
        learner.terminate()
        assert learner.wait() == 0, learner.stderr()
        assert learner.trained() == ["g0"]
    farm.assert_nothing_is_left(["g0"])
    with LearnerProcess(tmp_path / "run", **overrides, **{"run.updates": 1}) as learner:
        assert learner.wait() == 0, learner.stderr()
    assert farm.gateway.versions[1] == farm.gateway.versions[2]
    assert [u.learner_epoch for u in farm.gateway.updates] == [1, 1, 2]


def test_equal_rewards_give_a_version_of_unchanged_weights(farm: Farm, tmp_path: Path):
    with LearnerProcess(tmp_path / "run", **farm.overrides(**{"run.updates": 1})) as learner:
        learner.wait_for("the first version", announced(farm, 1))
        flat = make_group("flat", [1.0] * 8, farm.initial_version(), farm.score, seed=6)
        publish(farm.client, flat, folder=farm.store)
        assert learner.wait() == 0, learner.stderr()
    (step,) = learner.steps()
    assert (step["stepped"], step["loss"], step["grad_norm"]) == (False, 0.0, 0.0)
    (_, before), (number, after) = farm.gateway.versions
    assert (number, before) == (1, after)
    farm.assert_nothing_is_left(["flat"])


def test_dropped_connections_and_a_group_published_twice_repeat_nothing(farm: Farm, tmp_path: Path):
    with LearnerProcess(tmp_path / "run", **farm.overrides(**{"run.updates": 2})) as learner:
        learner.wait_for("the first version", announced(farm, 1))
        farm.client.client_kill_filter(_type="normal", skipme=True)
        farm.publish(0)
        learner.wait_for("the second version", announced(farm, 2))
        farm.client.client_kill_filter(_type="normal", skipme=True)
        farm.publish(0)
        farm.publish(1)
        assert learner.wait() == 0, learner.stderr()
    assert learner.trained() == ["g0", "g1"]
    assert [r["fate"] for r in learner.groups()] == ["trained", "duplicate", "trained"]
    assert farm.client.xlen(STREAM) == pending(farm.client) == 0


def test_an_early_end_publishes_what_no_version_had(farm: Farm, tmp_path: Path):
    overrides = farm.overrides(**{"publish.every": 4, "run.checkpoint_every": 4})
    with LearnerProcess(tmp_path / "run", **overrides) as learner:
        learner.wait_for("the first version", announced(farm, 1))
        farm.publish(0)
        learner.wait_for("a step", lambda: len(learner.steps()) == 1)
        learner.terminate()
        assert learner.wait() == 0, learner.stderr()
    (_, before), (number, after) = farm.gateway.versions
    assert number == 1
    assert before != after
    farm.assert_nothing_is_left(["g0"])


def test_a_second_learner_of_the_same_run_is_refused_in_one_line(farm: Farm, tmp_path: Path):
    with LearnerProcess(tmp_path / "one", **farm.overrides()) as first:
        first.wait_for("the first version", announced(farm, 1))
        with LearnerProcess(tmp_path / "two", **farm.overrides()) as second:
            assert second.wait() == 1
        last = second.stderr().splitlines()[-1]
        assert last.startswith("error: FencedError: another learner holds the lease")
        assert first.process.poll() is None
    assert len(farm.gateway.updates) == 1


def test_engines_that_sampled_from_other_weights_stop_the_run(farm: Farm, tmp_path: Path):
    with LearnerProcess(tmp_path / "run", **farm.overrides()) as learner:
        learner.wait_for("the first version", announced(farm, 1))
        wrong = make_group(
            "wrong",
            REWARDS[0],
            farm.initial_version(),
            lambda ids: [p - 0.01 for p in farm.score(ids)],
            seed=9,
        )
        publish(farm.client, wrong, folder=farm.store)
        assert learner.wait() == 1
    assert "VersionMismatch: engine and learner differ by 0.01 nats" in learner.stderr()
    assert learner.steps() == []
    assert pending(farm.client) == 0
    ((_, letter),) = farm.client.xrange(streams.dead_letters("run"))  # pyright: ignore
    assert letter[b"reason"] == b"engine and learner differ by 0.01 nats"
    with LearnerProcess(tmp_path / "run", **farm.overrides(**{"run.updates": 1})) as again:
        again.wait_for("the first version again", announced(farm, 2))
        right = make_group("right", REWARDS[0], farm.initial_version(), farm.score, seed=9)
        publish(farm.client, right, folder=farm.store)
        assert again.wait() == 0, again.stderr()
        assert [step["update"] for step in again.steps()] == [1]


def test_a_gateway_that_restarts_is_waited_for(farm: Farm, tmp_path: Path):
    farm.gateway.stop()
    with LearnerProcess(tmp_path / "run", **farm.overrides(**{"run.updates": 0})) as learner:
        wait_until(
            lambda: (learner.run_dir / "weights/0/model.safetensors").exists(), "weights", 240
        )
        again = RecordingGateway(farm.gateway.port)
        try:
            assert learner.wait() == 0, learner.stderr()
            assert [number for number, _ in again.versions] == [0]
        finally:
            again.stop()


def pending(client: redis.Redis) -> int:
    return client.xpending(STREAM, streams.CONSUMER_GROUP)["pending"]  # pyright: ignore
