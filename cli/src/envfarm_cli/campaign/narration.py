"""What a person reads while a campaign runs: a line per stage, progress, rates, time left."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from envfarm_cli.output import Output, plain

LINE_SECONDS = 20.0
"""Where nobody sees a bar move (a log, a pipe), a line comes this often."""
DESCRIPTION = "{task.description}"


class Narration:
    """Stages as they go by. `total` stages are announced as 1/total, 2/total, …"""

    def __init__(self, out: Output, total: int, beat: Callable[[], None] = lambda: None):
        self.out = out
        self.beat = beat
        """Called whenever a meter moves."""
        self._total = total
        self._number = 0
        self._started = time.monotonic()

    def stage(self, title: str, line: str, about: str = "") -> None:
        """A stage begins; `line` explains it in one sentence, `about` says how long it takes."""
        self._number += 1
        clock = minutes(time.monotonic() - self._started)
        self.out.say("")
        self.out.say(f"[b]{self._number}/{self._total} {plain(title)}[/b]  [dim]{clock}[/dim]")
        length = f" [dim]({plain(about)})[/dim]" if about else ""
        self.out.say(f"  {plain(line)}{length}")

    def done_before(self, seconds: float) -> None:
        self.say(f"done before, in {minutes(seconds)}; its result was verified and is kept")

    def say(self, text: str) -> None:
        """A finding, below its stage."""
        self.out.say(f"  [green]→[/green] {plain(text)}")

    def note(self, text: str) -> None:
        """Something smaller."""
        self.out.say(f"  [dim]{plain(text)}[/dim]")

    @contextmanager
    def meter(self, what: str, total: float | None = None) -> Iterator["Meter"]:
        """A bar with rate and time left; without `total` a spinner."""
        if self.out.console.is_terminal and not self.out.console.quiet:
            with self._bar() as bar:
                yield _BarMeter(bar, what, total, self.beat)
        else:
            yield _LineMeter(self, what, total)

    def _bar(self) -> Progress:
        return Progress(
            TextColumn(" "),
            SpinnerColumn(),
            TextColumn(DESCRIPTION),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("[dim]{task.fields[note]}[/dim]"),
            console=self.out.console,
            transient=True,
        )


class Meter:
    """How far one thing has come."""

    def at(self, done: float, note: str = "", total: float | None = None) -> None:
        """`note` stands behind the bar; `total` replaces the one known so far."""
        raise NotImplementedError


class _BarMeter(Meter):
    def __init__(self, bar: Progress, what: str, total: float | None, beat: Callable[[], None]):
        self._bar, self._beat = bar, beat
        self._task = bar.add_task(plain(what), total=total, note="")

    def at(self, done: float, note: str = "", total: float | None = None) -> None:
        # None leaves the total as it is.
        self._beat()
        self._bar.update(self._task, completed=done, total=total, note=plain(note))


class _LineMeter(Meter):
    def __init__(self, narration: Narration, what: str, total: float | None):
        self._narration, self._what, self._total = narration, what, total
        self._started = self._said = time.monotonic()
        self._first: float | None = None

    def at(self, done: float, note: str = "", total: float | None = None) -> None:
        self._narration.beat()
        now = time.monotonic()
        self._total = self._total if total is None else total
        self._first = done if self._first is None else self._first
        if now - self._said < LINE_SECONDS:
            return
        self._said = now
        where = f"{done:g}" if self._total is None else f"{done:g} of {self._total:g}"
        left = self._left(done, now)
        parts = [f"{self._what}: {where}", *([left] if left else []), *([note] if note else [])]
        self._narration.note("; ".join(parts))

    def _left(self, done: float, now: float) -> str:
        gained = done - (self._first or 0.0)
        if self._total is None or gained <= 0 or now <= self._started or done >= self._total:
            return ""
        seconds = (self._total - done) * (now - self._started) / gained
        return f"about {minutes(seconds)} left"


def minutes(seconds: float) -> str:
    """40 s, 3 min 20 s, 2 h 05 min."""
    whole = round(max(0.0, seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
