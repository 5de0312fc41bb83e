"""Accounts that server processes run under: one for each, of no name and for nothing else.

An account keeps servers from each other, from us and from Postgres, and makes the kill exact: whatever
a server started, however it hid, is a process of its account. Accounts are numbers from a range; a
lock file says which are taken, by any env-server of the machine. Whoever takes one first ends what a
dead owner left under it.
"""

import contextlib
import fcntl
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from envfarm.errors import ConfigError, NoCapacity

from env_server.server_strays import end_all, of_account

_LOCKS = "envfarm-server-accounts"


@dataclass(frozen=True, slots=True)
class Account:
    """A number that is ours until `give_back`."""

    number: int
    lock: int

    @property
    def ids(self) -> tuple[int, int]:
        return self.number, self.number

    def give_back(self) -> None:
        os.close(self.lock)


class Accounts:
    """`take` one of `numbers`; ConfigError when the folder of locks cannot be trusted."""

    def __init__(self, numbers: range):
        self._numbers = numbers
        self._folder = Path(tempfile.gettempdir()) / _LOCKS
        with contextlib.suppress(FileExistsError):
            self._folder.mkdir(mode=0o700)
        facts = self._folder.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
            raise ConfigError(f"{self._folder} is not a folder of ours", hint="remove it")

    def take(self) -> Account:
        """NoCapacity when all are taken."""
        for number in self._numbers:
            lock = os.open(self._folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            end_all(of_account(number))
            return Account(number, lock)
        raise NoCapacity(f"all {len(self._numbers)} accounts for servers are in use")

    def sweep(self) -> None:
        """End what dead env-servers left running under any account of the range."""
        for path in self._folder.iterdir():
            if path.name.isdigit() and int(path.name) in self._numbers:
                with contextlib.suppress(BlockingIOError):
                    lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        end_all(of_account(int(path.name)))
                    finally:
                        os.close(lock)
