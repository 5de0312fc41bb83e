"""What a run meets and does not survive: one line that says what, where and what to do."""

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from envfarm import streams

from tests.integration.learner.test_training_run import Farm, announced
from tests.support.learner_process import CONFIG
from tests.support.polling import wait_until
from tests.support.recording_gateway import TOKEN


@pytest.fixture
def farm(redis_server, client, gateway, tiny_model, tiny_score, tmp_path) -> Farm:
    store = tmp_path / "store"
    store.mkdir()
    return Farm(redis_server, client, gateway, tiny_model, tiny_score, store)


class Ranks:
    """A learner of two ranks under torchrun's environment, each a process of its own."""

    def __init__(self, farm: Farm, run_dir: Path, count: int = 2, **overrides: object):
        run_dir.mkdir(exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        settings = {"run.id": "run", "run.dir": run_dir, **farm.overrides(**overrides)}
        command = [sys.executable, "-m", "learner", "train", "--config", str(CONFIG)]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        self.run_dir, self.processes = run_dir, []
        for rank in range(count):
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": os.environ["HOME"],
                "LEARNER_GATEWAY_TOKEN": TOKEN,
                "OMP_NUM_THREADS": "1",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(count),
            }
            with (run_dir / f"rank-{rank}.log").open("w") as log:
                process = subprocess.Popen(command, env=environment, stderr=log, stdout=log)
            self.processes.append(process)

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def said(self, rank: int) -> str:
        return (self.run_dir / f"rank-{rank}.log").read_text()

    def wait(self, seconds: float = 240) -> list[int]:
        return [process.wait(seconds) for process in self.processes]


@pytest.mark.parametrize("stage", [pytest.param(0, marks=pytest.mark.prove), 2])
def test_one_of_two_ranks_dies_and_the_run_goes_on_with_two_and_with_one(
    farm: Farm, tmp_path: Path, stage: int
):
    settings = {"model.zero_stage": stage, "run.updates": 3, "run.lease_seconds": 2}
    run_dir = tmp_path / "run"
    with Ranks(farm, run_dir, **settings) as ranks:
        wait_until(announced(farm, 1), "the first version", 200)
        farm.publish(0)
        wait_until(announced(farm, 2), "the second version", 200)
        ranks.processes[1].kill()
        assert ranks.processes[0].wait(60) == 1
        last = ranks.said(0).strip().splitlines()[-1]
        assert last.startswith("error: LearnerError: rank 0 of 2 has lost another rank")
    with Ranks(farm, run_dir, **{**settings, "run.updates": 2}) as ranks:
        farm.publish(1)
        assert ranks.wait() == [0, 0], ranks.said(0)[-2000:]
    with Ranks(farm, run_dir, count=1, **settings) as ranks:
        farm.publish(2)
        assert ranks.wait() == [0], ranks.said(0)[-2000:]
        assert ("converting it" in ranks.said(0)) == (stage == 2)
    farm.assert_nothing_is_left(["g0", "g1", "g2"])


@pytest.mark.prove
def test_a_leader_that_dies_takes_the_others_with_it(farm: Farm, tmp_path: Path):
    with Ranks(farm, tmp_path / "run") as ranks:
        wait_until(announced(farm, 1), "the first version", 200)
        ranks.processes[0].kill()
        assert ranks.processes[1].wait(60) == 1
        last = ranks.said(1).strip().splitlines()[-1]
        assert last.startswith("error: LearnerError: rank 1 of 2 has lost another rank")


@pytest.mark.prove
def test_sigterm_to_all_ranks_ends_after_a_checkpoint(farm: Farm, tmp_path: Path):
    with Ranks(farm, tmp_path / "run") as ranks:
        wait_until(announced(farm, 1), "the first version", 200)
        for process in ranks.processes:
            process.send_signal(signal.SIGTERM)
        assert ranks.wait(60) == [0, 0]


def test_a_disk_that_is_full_in_the_middle_of_a_checkpoint_is_one_line_and_loses_nothing(
    farm: Farm, tmp_path: Path
):
    run_dir = tmp_path / "run"
    settings = {"run.updates": 1}
    with Ranks(farm, run_dir, count=1, **settings) as ranks:
        wait_until(announced(farm, 1), "the first version", 200)
        # The weights of 4 MB still fit, the checkpoint of 11 MB does not.
        resource.prlimit(ranks.processes[0].pid, resource.RLIMIT_FSIZE, (6_000_000, 6_000_000))
        farm.publish(0)
        assert ranks.wait() == [1]
        last = ranks.said(0).strip().splitlines()[-1]
    assert last.startswith(f"error: {run_dir}/checkpoints/checkpoint-000001: ")
    assert "free some room there and start again" in last
    assert list((run_dir / "checkpoints").glob("checkpoint-*")) == []
    with Ranks(farm, run_dir, count=1, **settings) as ranks:
        assert ranks.wait() == [0], ranks.said(0)[-2000:]
    farm.assert_nothing_is_left(["g0"])


def test_a_redis_that_cannot_write_its_disk_is_one_line(farm: Farm, tmp_path: Path):
    with Ranks(farm, tmp_path / "run", count=1, **{"run.updates": 1}) as ranks:
        wait_until(announced(farm, 1), "the first version", 200)
        farm.publish(0)
        wait_until(announced(farm, 2), "the second version", 200)
    ids = farm.client.smembers(streams.trained_ids("run"))
    assert ids == {b"g0"}
    refuse_writes(farm.client)
    with Ranks(farm, tmp_path / "run", count=1, **{"run.updates": 2}) as ranks:
        assert ranks.wait() == [1]
        last = ranks.said(0).strip().splitlines()[-1]
    assert last.startswith("error: StreamError: ")
    assert "MISCONF" in last
    # Otherwise its stop would wait for half a minute for a snapshot that it cannot write.
    farm.client.config_set("save", "")


def refuse_writes(client: redis.Redis) -> None:
    """As after a failed snapshot to a full disk: Valkey refuses every write with MISCONF."""
    shutil.rmtree(client.config_get("dir")["dir"])  # pyright: ignore
    client.config_set("save", "1 1")
    client.config_set("stop-writes-on-bgsave-error", "yes")

    def refused() -> bool:
        try:
            client.set("probe", "1")
            if not client.info("persistence")["rdb_bgsave_in_progress"]:  # pyright: ignore
                client.bgsave()
        except redis.ResponseError as error:
            return "MISCONF" in str(error)
        return False

    wait_until(refused, "a refusal", 60)
