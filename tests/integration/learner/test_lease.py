"""One learner at a time, on a real Valkey."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from envfarm import streams
from envfarm.errors import FencedError
from envfarm_common.binaries import RedisServer

from learner.lease import Lease
from tests.support.polling import wait_until

RUN = "lease-test"
KEY, COUNTER = streams.learner_lease(RUN), streams.learner_epoch(RUN)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[redis.Redis]:
    with (
        RedisServer(tmp_path / "valkey") as server,
        redis.Redis.from_url(server.url) as connection,
    ):
        yield connection


def taken(client: redis.Redis, seconds: float) -> Lease:
    lease = Lease(client, RUN, seconds)
    assert lease.take(threading.Event())
    return lease


def is_fenced(lease: Lease) -> bool:
    try:
        lease.check()
    except FencedError:
        return True
    return False


def test_a_second_learner_is_refused_while_the_first_lives(client: redis.Redis):
    first = taken(client, 0.5)
    with pytest.raises(FencedError, match="another learner holds the lease"):
        Lease(client, RUN, 0.5).take(threading.Event())
    first.check()
    first.release()
    second = taken(client, 0.5)
    assert (first.epoch, second.epoch) == (1, 2)
    second.release()


def test_a_lease_that_ran_out_unnoticed_is_taken_back(client: redis.Redis):
    lease = taken(client, 0.4)
    client.delete(KEY)
    wait_until(lambda: client.get(KEY) == b"1", "the key is back")
    lease.check()
    lease.release()


def test_a_learner_whose_lease_went_to_another_stops(client: redis.Redis):
    lease = taken(client, 0.4)
    with client.pipeline(transaction=True) as pipe:
        pipe.incr(COUNTER)
        pipe.set(KEY, 2)
        pipe.execute()
    wait_until(lambda: is_fenced(lease), "the first learner notices")
    lease.release()
    assert client.get(KEY) == b"2"


def test_a_lease_is_not_taken_back_after_another_had_it(client: redis.Redis):
    lease = taken(client, 0.4)
    with client.pipeline(transaction=True) as pipe:
        pipe.incr(COUNTER)
        pipe.delete(KEY)
        pipe.execute()
    wait_until(lambda: is_fenced(lease), "the first learner notices")
    lease.release()
    assert client.get(KEY) is None


def test_a_learner_without_redis_stops_when_its_lease_has_run_out(tmp_path: Path):
    with RedisServer(tmp_path / "valkey") as server:
        lease = taken(redis.Redis.from_url(server.url, socket_timeout=0.2), 0.4)
    wait_until(lambda: is_fenced(lease), "the learner notices")
