"""One job as people follow it: how far it is, how fast, how long still, what each attempt does."""

from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from envfarm_cli.output import plain

WINDOW_SECONDS = 60.0
"""Rates are over the last of them."""
SLOTS_SHOWN = 8
BAR_WIDTH = 40
RUNNING = "running"
WAITS = {
    "disk": "a disk that takes no records",
    "engine": "an engine that serves",
    "env": "room at an env-server",
    "grader": "the grader",
    "learner": "the learner",
    "seat": "a seat: all are taken",
    "stream": "the learner to take groups",
    "turn": "a group that started before",
    "version": "its policy version",
}


@dataclass(frozen=True, slots=True)
class Rates:
    """Per second, over the last minute or since the first look; None before the second one."""

    attempts: float | None
    tokens: float | None
    groups: float | None
    seconds_left: float | None
    """Until all groups are there, at this rate; None when nothing came or the job has no end."""


class Progress:
    """Statuses of a job as they come in, with the seconds at which they came."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, dict[str, Any]]] = deque()

    def add(self, at: float, job: dict[str, Any]) -> None:
        self._looks.append((at, job))
        while len(self._looks) > 2 and at - self._looks[1][0] >= WINDOW_SECONDS:
            self._looks.popleft()

    def rates(self, at: float) -> Rates:
        """As of `at`, so that they fall while nothing comes."""
        if not self._looks or at <= self._looks[0][0]:
            return Rates(None, None, None, None)
        (since, first), (_, last) = self._looks[0], self._looks[-1]
        seconds = at - since
        groups = (groups_there(last) - groups_there(first)) / seconds
        owed = last["groups_total"] - groups_there(last)
        return Rates(
            (last["attempts"] - first["attempts"]) / seconds,
            (last["sampled_tokens"] - first["sampled_tokens"]) / seconds,
            groups,
            owed / groups if groups > 0 and last["groups_total"] else None,
        )


def groups_there(job: dict[str, Any]) -> int:
    """Groups that count towards what is owed. Of a list a cancelled one is one that is over."""
    there = job["groups_published"] + job["groups_recorded"] - job["groups_dropped"]
    return there + (job["groups_cancelled"] if ends_with_cancelled(job) else 0)


def ends_with_cancelled(job: dict[str, Any]) -> bool:
    """Whether cancelled groups are not replaced: a list owes each group once, a stream until it
    has enough of them."""
    return not job["is_stream"]


def state_name(job: dict[str, Any]) -> str:
    return job["state"].removeprefix("JOB_STATE_").lower()


def kind_name(job: dict[str, Any]) -> str:
    return job["kind"].removeprefix("JOB_KIND_").lower()


def line(job: dict[str, Any], rates: Rates) -> str:
    """Everything that matters in one line, for logs and pipes."""
    parts = [
        f"{state_name(job)}: {_of(groups_there(job), job['groups_total'])} groups",
        f"{job['attempts']} attempts",
    ]
    if rates.attempts is not None:
        parts.append(f"{rates.attempts:.1f} attempts/s, {rates.tokens:,.0f} tokens/s")
    if rates.seconds_left is not None:
        parts.append(f"{clock(rates.seconds_left)} left")
    if job["attempts"]:
        parts.append(f"mean reward {job['reward_mean']:.3f}")
    if job["refilled_samples"]:
        parts.append(f"{job['refilled_samples']} run again")
    if job["waiting_for"]:
        parts.append(f"waits for {WAITS.get(job['waiting_for'], job['waiting_for'])}")
    return " · ".join(parts)


def screen(
    job: dict[str, Any], rates: Rates, slots: list[dict[str, Any]], trouble: str = ""
) -> RenderableType:
    """The live view."""
    title = Text.from_markup(
        f"[b]{plain(job['job_id'])}[/b]  {kind_name(job)} of run {plain(job['run_id'])}  "
        f"[b]{state_name(job)}[/b]"
    )
    parts: list[RenderableType] = [title, _bar(job, rates), _figures(job, rates)]
    if job["message"]:
        parts.append(Text.from_markup(f"[yellow]{plain(job['message'])}[/yellow]"))
    parts += [*_waits(job), *_slots(slots)]
    if trouble:
        parts.append(Text.from_markup(f"[red]no answer from the gateway: {plain(trouble)}[/red]"))
    return Group(*parts)


def clock(seconds: float) -> str:
    """`1:02:03` or `2:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _of(count: int, total: int) -> str:
    return f"{count} of {total}" if total else str(count)


def _bar(job: dict[str, Any], rates: Rates) -> RenderableType:
    there, total = groups_there(job), job["groups_total"]
    row = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=total or None, completed=there, width=BAR_WIDTH, pulse=not total)
    left = f"{clock(rates.seconds_left)} left" if rates.seconds_left is not None else ""
    row.add_row(bar, f"{_of(there, total)} groups", f"[dim]{left}[/dim]")
    return row


def _figures(job: dict[str, Any], rates: Rates) -> RenderableType:
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    cells = {
        "running": f"{job['groups_running']} groups, {job['rollouts_running']} attempts",
        "attempts": str(job["attempts"]),
        "attempts/s": _rate(rates.attempts, "{:.2f}"),
        "tokens/s": _rate(rates.tokens, "{:,.0f}"),
        "groups/min": _rate(rates.groups and rates.groups * 60, "{:.1f}"),
        "mean reward": f"{job['reward_mean']:.3f}" if job["attempts"] else "–",
        "run again": str(job["refilled_samples"]),
        "cancelled": _counts(job["cancelled"]) or "0",
        "parked": _counts(Counter(job["parked"].values())) or "0",
    }
    for name in cells:
        table.add_column(name)
    table.add_row(*cells.values())
    return table


def _waits(job: dict[str, Any]) -> list[RenderableType]:
    waiting = sorted(job["waiting"].items(), key=lambda item: -item[1])
    return [
        Text.from_markup(f"[yellow]{count}[/yellow] waiting for {WAITS.get(what, plain(what))}")
        for what, count in waiting
    ]


def _slots(slots: list[dict[str, Any]]) -> list[RenderableType]:
    if not slots:
        return []
    doing = Counter(slot["doing"] for slot in slots)
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("attempt", "task", "turn", "does", "for", "runs for"):
        table.add_column(name, justify="right" if name in ("turn", "for", "runs for") else "left")
    for slot in slots[:SLOTS_SHOWN]:
        table.add_row(
            plain(slot["rollout_id"]),
            plain(slot["task_id"]),
            str(slot["turn"]),
            plain(slot["doing"]),
            f"{slot['seconds']:.1f} s",
            f"{slot['running_seconds']:.1f} s",
        )
    parts: list[RenderableType] = [Text(f"attempts by what they do: {_counts(doing)}"), table]
    if len(slots) > SLOTS_SHOWN:
        parts.append(Text(f"and {len(slots) - SLOTS_SHOWN} that wait less long", style="dim"))
    return parts


def _counts(counts: dict[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{plain(name)} {count}" for name, count in ordered)


def _rate(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)
