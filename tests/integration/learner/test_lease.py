"""One learner at a time, on a real Valkey."""

import threading

import pytest
import redis
from envfarm import streams
from envfarm.errors import FencedError

from learner.lease import Lease
from tests.support.polling import wait_until


def take(client: redis.Redis, seconds: float = 30) -> Lease:
    lease = Lease(client, "run", seconds)
    assert lease.take(threading.Event())
    return lease


def test_each_holder_has_a_higher_epoch(client: redis.Redis):
    first = take(client)
    first.release()
    second = take(client)
    assert (first.epoch, second.epoch) == (1, 2)
    second.release()
    assert not client.exists(streams.learner_lease("run"))


def test_a_lease_that_somebody_else_took_over_is_lost(client: redis.Redis):
    lease = take(client, 1)
    lease.check()
    client.set(streams.learner_lease("run"), "99")

    def lost() -> bool:
        try:
            lease.check()
        except FencedError:
            return True
        return False

    wait_until(lost, "the loss", 5)
    lease.release()
    assert client.get(streams.learner_lease("run")) == b"99"


def test_it_is_renewed_past_its_first_end(client: redis.Redis):
    lease = take(client, 1)
    key = streams.learner_lease("run")
    renewals: set[int] = set()

    def renewed() -> bool:
        left = client.pttl(key)
        assert left > 0, "the key must never run out"  # pyright: ignore
        renewals.add(round(lease._renewed_at * 1000))
        return len(renewals) > 5

    wait_until(renewed, "renewals", 10)
    lease.check()
    lease.release()


def test_waiting_for_a_held_lease_ends_when_told_to_stop(client: redis.Redis):
    holder = take(client)
    stop = threading.Event()
    stop.set()
    assert not Lease(client, "run", 30).take(stop)
    holder.release()


def test_a_live_holder_is_not_replaced(client: redis.Redis):
    holder = take(client, 1)
    with pytest.raises(FencedError, match="another learner holds the lease"):
        Lease(client, "run", 1).take(threading.Event())
    holder.check()
    holder.release()
