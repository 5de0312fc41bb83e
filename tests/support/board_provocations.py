"""What moves each panel: the scene that provokes it, the series that tells of it, and which way."""

import re
import time
from dataclasses import dataclass
from typing import Literal

from envfarm_cli.prometheus_api import Series
from envfarm_watch.panel import Panel
from envfarm_watch.pictures import legend
from tests.support.polling import wait_until
from tests.support.watched_run import WatchedRun

BEFORE_SCRAPES, AFTER_SCRAPES = 2, 3
"""A panel is asked from before its scene, until the last event of it was scraped and rated."""


@dataclass(frozen=True)
class Provoked:
    """By a scene; `series` is the legend of one of the panel's series, as an expression."""

    scene: str
    series: str
    way: Literal["rises", "falls"] = "rises"

    def moves(self, run: WatchedRun, panel: Panel, start: float, end: float) -> bool:
        """Whether a series of that name went that way since the scene began, at `start`."""
        seconds = run.scrape_seconds
        first, last = start - BEFORE_SCRAPES * seconds, end + AFTER_SCRAPES * seconds
        wait_until(lambda: time.time() > last, "the scrapes of the scene's end", 60)
        return any(
            self._moved(line, start, seconds, last)
            for query in panel.queries
            for line in run.series(query, first, last)
            if re.fullmatch(self.series, legend(query, line.labels))
        )

    def _moved(self, line: Series, start: float, seconds: float, last: float) -> bool:
        """What is not there, or comes again, rises from zero; what goes away falls."""
        points = list(zip(line.times, line.values, strict=True))
        stood = [(at, value) for at, value in points if at <= start]
        since = points[len(stood) :]
        if self.way == "falls":
            was_gone = len(since) < int((last - start) / seconds)
            return bool(stood) and (was_gone or min(value for _, value in since) < stood[-1][1])
        known, level = stood[-1] if stood else (0.0, 0.0)
        for at, value in since:
            level = 0.0 if at - known > 1.5 * seconds else level
            if value > level:
                return True
            known = at
        return False


_PROCESS = {
    "CPU": Provoked("visitors", ".+"),
    "Resident memory": Provoked("training", ".+"),
    "Open descriptors": Provoked("visitors", ".+"),
}

PROVOKED_BY: dict[str, dict[str, Provoked]] = {
    "envfarm-throughput": {
        "Episodes a second": Provoked("training", "effective"),
        "Groups a second": Provoked("training", "effective"),
        "Tokens a second": Provoked("training", "effective"),
        "Attempts in flight, by stage": Provoked("a stuck engine", "generate"),
        "Groups that no learner has taken": Provoked("a learner that is away", "undelivered"),
        "Queues, by what is waited for": Provoked("a learner that is away", "learner, groups"),
        "Idle": Provoked("a stuck engine", "engines", "falls"),
        "Refills, by cause": Provoked("attempts out of time", "timed_out"),
        "Groups, by outcome": Provoked("training", "published"),
        "Seconds of an attempt": Provoked("training", "generate p99"),
    },
    "envfarm-farm": {
        "Live episodes": Provoked("a stuck engine", "orders"),
        "Ready slots": Provoked("a stuck engine", "orders, waited for"),
        "Refused opens, by reason": Provoked("a stuck engine", ".+"),
        "Time to open, by source of the slot": Provoked("training", "reused p99"),
        "Episodes ended, by end": Provoked("training", "closed"),
        "Leaked databases": Provoked("a leak", "leaked"),
        "Time to clone": Provoked("a stuck engine", "p99"),
        "Slots given back": Provoked("training", "reused"),
        "Evidence, by source": Provoked("training", "journal"),
        "Undo and verify": Provoked("training", "p50"),
        "Postgres: connections": Provoked("a stuck engine", "active"),
        "Postgres: databases": Provoked("a leak", "databases"),
        "Processes that answer": Provoked("a stopped env-server", "env-server", "falls"),
        "Resident memory, largest of each service": Provoked("training", "learner"),
    },
    "envfarm-learning": {
        "Reward of the batch": Provoked("training", "mean reward"),
        "Groups without contrast": Provoked("training", "thrown away"),
        "Pass shares of graded attempts, by domain": Provoked("training", "orders"),
        "Last evaluation": Provoked("an evaluation", "ever"),
        "Engine against learner": Provoked("training", "batch"),
        "Versions: in service, trained": Provoked("training", "published"),
        "Taken groups, by fate": Provoked("a learner that is away", "stale"),
        "Excused attempts, by status": Provoked("attempts out of time", "timed_out"),
        "Distance of engine and learner": Provoked("training", "k3 estimate"),
        "Probability ratios": Provoked("training", ".+"),
        "Entropy of the policy": Provoked("training", "entropy"),
        "Spread of advantages": Provoked("training", "spread"),
        "Staleness of the batch": Provoked("training", "oldest"),
        "Gradient norm": Provoked("training", "norm"),
        "Clipped tokens": Provoked("training", "clipped"),
    },
    "envfarm-time": {
        "Where an attempt's seconds go": Provoked("training", "generate"),
        "Stages, 99th percentile": Provoked("training", "generate"),
        "Tool calls, by world": Provoked("training", "orders p50"),
        "Sealing": Provoked("training", "p50"),
        "Grading, by input": Provoked("training", "episode p50"),
        "Where the learner's seconds go": Provoked("training", "backward"),
        "Putting weights into service": Provoked("training", "p50"),
    },
    "envfarm-env-server": {
        "Calls a second, by outcome": Provoked("training", "ok"),
        "Ten slowest tools": Provoked("training", "orders .+"),
        **_PROCESS,
    },
    "envfarm-grader": {
        "Verdicts a second": Provoked("training", "graded 1"),
        "Failed checks a second, by kind": Provoked("training", ".+"),
        "Time to a verdict": Provoked("training", "episode p50"),
        **_PROCESS,
    },
    "envfarm-gateway": {
        "Attempts ended, by status": Provoked("attempts out of time", "timed_out"),
        "Running attempts": Provoked("a stuck engine", "running"),
        "Version in service": Provoked("training", "version"),
        "Seats for attempts": Provoked("a stuck engine", "held"),
        "Tokens of simulated users": Provoked("users played by a model", "user model"),
        "Calls inside the reasoning": Provoked("training", "calls"),
        **_PROCESS,
    },
    "envfarm-engine": {
        "Running and waiting": Provoked("a stuck engine", ".+ running"),
        "Cache in use": Provoked("a stuck engine", ".+"),
        "Tokens a second": Provoked("training", "written"),
        **_PROCESS,
    },
    "envfarm-learner": {
        "Seconds of an update, by phase": Provoked("training", "backward"),
        "What it does now": Provoked("a learner that is away", "wait", "falls"),
        "Trained tokens a second": Provoked("training", "trained"),
        "Tokens that taught nothing": Provoked("training", ".+"),
        "Published version": Provoked("training", "version"),
        **_PROCESS,
    },
}
"""Board → title of a panel → its provocation."""
