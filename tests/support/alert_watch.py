"""When alerts come and go beside a running stack."""

import threading
import time
from dataclasses import dataclass, field

from envfarm_cli.failure import NotRunning
from envfarm_cli.prometheus_api import Prometheus
from tests.support.polling import wait_until

FIRE_SECONDS = 60.0
"""From its cause an alert may take so long."""
GIVE_UP_SECONDS = 3 * FIRE_SECONDS
"""A late alert is told with its seconds; one that has not come by then is told as missing."""
LONG_SECONDS = 600.0
"""For what a loaded machine takes long over; only how fast an alert fires is held to a limit."""


@dataclass
class AlertWatch:
    """`with AlertWatch(prometheus) as alerts`: looks every half second which alerts fire.

    Times are Unix seconds.
    """

    prometheus: Prometheus
    fire_seconds: dict[str, float] = field(default_factory=dict)
    """From an alert's cause until it fired, as `expect` saw it."""
    clear_seconds: dict[str, float] = field(default_factory=dict)
    """From the end of its cause until it was gone, as `expect_clear` saw it; 0 if it went before."""

    def __post_init__(self) -> None:
        self._fired: dict[str, float] = {}
        self._fired_of_cause: dict[str, float] = {}
        self._over: dict[str, float] = {}
        self._gone: dict[str, list[float]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "AlertWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(40)

    def quiet(self, *alerts: str) -> None:
        """Wait until none of them fires of an earlier cause."""
        wait_until(lambda: not set(alerts) & self.prometheus.firing(), f"no {alerts}", LONG_SECONDS)

    def expect(self, *alerts: str, cause: float) -> None:
        """Wait until all of them fired; `cause` is when their reason came about."""
        while waiting := [name for name in alerts if self._fired.get(name, 0) < cause]:
            late = time.time() >= cause + GIVE_UP_SECONDS
            assert not late, f"no {waiting} within {GIVE_UP_SECONDS:g} s of the cause"
            time.sleep(0.1)
        self._fired_of_cause |= {name: self._fired[name] for name in alerts}
        self.fire_seconds |= {name: round(self._fired[name] - cause, 1) for name in alerts}

    def over(self, *alerts: str) -> None:
        """What they fire of has ended now, unless it had before."""
        for alert in alerts:
            self._over.setdefault(alert, time.time())

    def is_clear(self, alert: str) -> bool:
        """Whether it fired of its cause, and was gone since."""
        return self._gone_since(alert) is not None

    def expect_clear(self, alert: str) -> None:
        """Wait until it, which fired of its cause, was gone since."""
        wait_until(lambda: self.is_clear(alert), f"{alert} clear", LONG_SECONDS)
        gone = self._gone_since(alert)
        assert gone is not None
        self.clear_seconds[alert] = round(max(0, gone - self._over[alert]), 1)

    def _gone_since(self, alert: str) -> float | None:
        fired = self._fired_of_cause[alert]
        return next((at for at in self._gone.get(alert, []) if at > fired), None)

    def _look(self) -> None:
        before: set[str] = set()
        while not self._stop.wait(0.5):
            try:
                now = self.prometheus.firing()
            except NotRunning:
                continue
            self._fired |= dict.fromkeys(now - before, time.time())
            for alert in before - now:
                self._gone.setdefault(alert, []).append(time.time())
            before = now
