"""One learner at a time: a Redis key that expires, with an epoch that only rises.

The holder renews from a thread. Whoever holds it must call `check` before anything that others can
see. A process that slept through its lease asks before it goes on: the lease is still its own if no
other epoch was given out meanwhile, for then nobody else can have acted; else it stops.
"""

import threading
import time

import redis
from envfarm import streams
from envfarm.errors import FencedError, StreamError, boundary

_TAKE = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local epoch = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], epoch, 'PX', ARGV[1])
return epoch
"""
_RENEW = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
_RELEASE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


class Lease:
    """Take with `take`, then `check` often; `release` at a clean end."""

    def __init__(self, client: redis.Redis, run_id: str, seconds: float):
        self._client = client
        self.key = streams.learner_lease(run_id)
        self._counter = streams.learner_epoch(run_id)
        self._seconds = seconds
        self._renewed_at = 0.0
        self._lost = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        self.epoch = 0

    def take(self, stop: threading.Event) -> bool:
        """Wait until the key is free, at most as long as a dead holder's lease lasts.

        False when `stop` was set first; FencedError when a live learner holds the lease.
        """
        end = time.monotonic() + self._seconds + 1.0
        while True:
            before = time.monotonic()
            with boundary(StreamError, "taking the learner's lease", redis.RedisError):
                self.epoch = int(
                    self._client.eval(_TAKE, 2, self.key, self._counter, self._milliseconds())
                )
            if self.epoch:
                self._renewed_at = before
                self._thread.start()
                return True
            if before > end:
                raise FencedError(
                    f"another learner holds the lease {self.key}",
                    hint="stop it, or give this run another id",
                )
            if stop.wait(min(0.1, self._seconds / 10)):
                return False

    def check(self) -> None:
        """Raise FencedError when the lease is no longer ours."""
        if not self._lost and time.monotonic() - self._renewed_at >= self._seconds:
            try:
                self._renew()
            except redis.RedisError:
                self._lost = f"it was not renewed for {self._seconds:g} s"
        if self._lost:
            raise FencedError(f"the lease {self.key} of epoch {self.epoch} is lost: {self._lost}")

    def release(self) -> None:
        """Give the key back if it is still ours; a dead Redis lets it expire instead."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if self.epoch and not self._lost:
            with boundary(StreamError, "releasing the learner's lease", redis.RedisError):
                self._client.eval(_RELEASE, 1, self.key, str(self.epoch))

    def _keep(self) -> None:
        while not self._stop.wait(self._seconds / 4):
            try:
                self._renew()
            except redis.RedisError:
                continue  # `check` decides by the clock
            if self._lost:
                return

    def _renew(self) -> None:
        before = time.monotonic()
        keys, milliseconds = (self.key, self._counter), self._milliseconds()
        if self._client.eval(_RENEW, 2, *keys, str(self.epoch), milliseconds):
            self._renewed_at = before
        else:
            self._lost = "another learner took it"

    def _milliseconds(self) -> int:
        return int(self._seconds * 1000)
