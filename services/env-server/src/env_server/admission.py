"""Who may open an episode now: capacity, shared fairly between clients.

Nobody waits in a queue here; who is refused asks again. So that a client with many hungry workers
cannot take every place that comes free, a place is kept for each other client that was refused
lately and holds less than its share.
"""

import time
from collections import Counter
from collections.abc import Callable

from envfarm.errors import DrainingError, EnvfarmError, NoCapacity
from envfarm_common.metrics import Instruments

RETRY_HINT_SECONDS = 1.0
HUNGRY_SECONDS = 5.0
"""How long a place is kept for a client that was refused; it asks again well within."""
REASONS = ("draining", "no_database", "full")


class Admission:
    """`admit` before each open, then `leave` once when its episode has ended or could not begin."""

    def __init__(
        self,
        max_episodes: int,
        instruments: Instruments,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.max_episodes = max_episodes
        self._instruments = instruments
        for reason in REASONS:
            instruments.count("envfarm_open_refusals_total", 0, reason=reason)
        self._clock = clock
        self._held: Counter[str] = Counter()
        self._refused: dict[str, float] = {}
        """Clients that were refused since their last open, and when."""

    @property
    def held(self) -> int:
        """Episodes that live or are being opened."""
        return self._held.total()

    def admit(self, client: str, *, is_draining: bool, has_database: bool) -> None:
        """Count one more episode of `client`, or raise: draining, no database now, or full."""
        refusal: EnvfarmError | None = None
        if is_draining:
            refusal, reason = DrainingError("this env-server is draining"), "draining"
        elif not has_database:
            refusal, reason = _no_capacity("the database is being restarted"), "no_database"
        elif self.held >= self.max_episodes:
            refusal, reason = _full(f"all {self.max_episodes} episodes are taken"), "full"
        elif not self._is_fair(client):
            refusal, reason = _full("the free episodes are kept for clients that have less"), "full"
        else:
            self._refused.pop(client, None)
            self._held[client] += 1
            return
        if reason == "full":
            self._refused[client] = self._clock()
        self._instruments.count("envfarm_open_refusals_total", reason=reason)
        raise refusal

    def leave(self, client: str) -> None:
        self._held[client] -= 1
        if self._held[client] <= 0:
            del self._held[client]

    def _is_fair(self, client: str) -> bool:
        now = self._clock()
        self._refused = {c: at for c, at in self._refused.items() if now - at < HUNGRY_SECONDS}
        share = self.max_episodes / len({client, *self._held, *self._refused})
        if self._held[client] + 1 <= share:
            return True
        hungry = [c for c in self._refused if c != client and self._held[c] + 1 <= share]
        return self.max_episodes - self.held > len(hungry)


def _no_capacity(text: str, hint: str = "") -> NoCapacity:
    return NoCapacity(text, hint=hint, retry_after_seconds=RETRY_HINT_SECONDS)


def _full(text: str) -> NoCapacity:
    return _no_capacity(text, "close episodes, or raise ENV_SERVER_MAX_EPISODES")
