"""What /proc says: is this pid still that process, and who lives in its process group."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Identity:
    """A process that a reused pid cannot be taken for, within one boot."""

    pid: int
    start: int
    """Clock ticks after boot at which the process started."""


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> Identity | None:
    """None when there is no such process, or only its zombie."""
    fields = _stat(pid)
    return None if fields is None or fields[0] == "Z" else Identity(pid, int(fields[19]))


def is_alive(known: Identity) -> bool:
    return identify(known.pid) == known


def group_members(leader: Identity) -> list[int]:
    """Living processes of the group that `leader` leads or led.

    While a member lives the kernel gives the group's number to nobody else; if the number was
    given away after the group had died, its new holder started later than ours and is told apart
    by its own start.
    """
    now = identify(leader.pid)
    if now is not None and now != leader:
        return []
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))) and fields[0] != "Z":
            same_group = int(fields[2]) == leader.pid and int(fields[3]) == leader.pid
            if same_group and int(fields[19]) >= leader.start:
                members.append(int(entry.name))
    return members


def end_group(leader: Identity, *, grace_seconds: float) -> int:
    """SIGTERM to the leader, then to orphans of its group, at last SIGKILL to what is left.

    Returns how many were alive.
    """
    members = group_members(leader)
    if not members:
        return 0
    for pid in members if leader.pid not in members else [leader.pid]:
        signal_process(pid, signal.SIGTERM)
        # One that was stopped would never hear it.
        signal_process(pid, signal.SIGCONT)
    deadline = time.monotonic() + grace_seconds
    while (alive := group_members(leader)) and time.monotonic() < deadline:
        if leader.pid not in alive:
            for pid in alive:
                signal_process(pid, signal.SIGTERM)
        time.sleep(0.05)
    for pid in group_members(leader):
        signal_process(pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while group_members(leader) and time.monotonic() < deadline:
        time.sleep(0.02)
    return len(members)


def signal_process(pid: int, number: signal.Signals) -> None:
    """Fine when it has ended; PermissionError that names it when it belongs to somebody else."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    except PermissionError as error:
        why = f"process {pid} belongs to another account; stop it as that account"
        raise PermissionError(error.errno, why) from error


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/<pid>/stat after the name: state, ppid, pgrp, session, ..., starttime (19)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
