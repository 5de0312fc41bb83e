"""What processes cost: CPU seconds and resident memory of a process with all its descendants."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one tree of processes, or of one half of a split tree."""

    cpu_seconds: float = 0.0
    """Since they began, children that have ended included."""
    pss_mb: float = 0.0
    """Proportional set size: what is shared counts once over all sharers."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.cpu_seconds + other.cpu_seconds, self.pss_mb + other.pss_mb)


def cost(pid: int) -> dict[str, Cost]:
    """Of `pid` and what it started: `own` and, for its Postgres, `postgres`."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields:
                parents[int(entry.name)] = int(fields[1])
    found = {"own": Cost(), "postgres": Cost()}
    for member in {pid, *(child for child in parents if _descends(child, pid, parents))}:
        kind = "postgres" if _name(member) == "postgres" else "own"
        found[kind] += _single(member)
    return found


def _descends(child: int, ancestor: int, parents: dict[int, int]) -> bool:
    while child in parents and child != ancestor:
        child = parents[child]
    return child == ancestor


def _single(pid: int) -> Cost:
    fields = _stat(pid)
    if not fields:
        return Cost()
    # utime, stime, and those of children that were waited for; 100 ticks a second.
    cpu = sum(int(fields[place]) for place in (11, 12, 13, 14)) / 100
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return Cost(cpu)
    kib = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return Cost(cpu, kib / 1024)


def _stat(pid: int) -> list[str]:
    """Fields of /proc/<pid>/stat after the name; empty when the process has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
