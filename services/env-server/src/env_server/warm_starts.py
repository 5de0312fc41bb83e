"""The warm parents of this env-server, one for each server of a world that asks for it; a program that
cannot be forked is found out once and then started anew for each episode.

As root, sessions need accounts of their own, and a parent that ran a foreign program as root would be
worse than any start: it runs under an account, too, in a user namespace that holds the range of
accounts and nothing else. Where the kernel gives no such namespace nothing is forked.
"""

import asyncio
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from envfarm_common import logging
from envfarm_common.binaries import child_command

from env_server import account_space
from env_server.server_child import StartedChild
from env_server.server_command import (
    environment_of,
    folder_of,
    kernel_limits,
    limited,
    program_of,
    through,
)
from env_server.server_file import ServerFile
from env_server.server_place import Place
from env_server.warm_parent import ForkedChild, NotForkable, WarmParent

log = logging.get(__name__)

MAX_DEATHS = 3
"""A parent that ended so often is not started again."""
_SCRIPTS = Path(__file__).parent / "foreign"


class WarmStarts:
    """`fork` a session; `close` ends all parents and their sessions."""

    def __init__(self, folder: Path, accounts: range | None, place: Callable[[], Place]):
        """`folder` is one that accounts of servers can reach; `place` makes a place."""
        self._accounts, self._place = accounts, place
        self.script = folder / "foreign" / "warm_program.py"
        self.script.parent.mkdir(mode=0o755)
        for source in _SCRIPTS.glob("*.py"):
            shutil.copyfile(source, self.script.parent / source.name)
        self._parents: dict[tuple[Path, str], WarmParent] = {}
        self._locks: dict[tuple[Path, str], asyncio.Lock] = {}
        self._deaths: dict[tuple[Path, str], int] = {}
        self._cold: set[tuple[Path, str]] = set()

    async def fork(
        self, name: str, spec: ServerFile, world: Path, now: datetime, place: Place, env: Mapping
    ) -> ForkedChild | None:
        """A session with environment `env`; None where the program is to be started instead."""
        key = (world, name)
        if spec.start != "forked" or key in self._cold:
            return None
        async with self._locks.setdefault(key, asyncio.Lock()):
            parent = self._parents.get(key)
            if parent is None or not parent.is_alive:
                parent = await self._warm(key, spec, now)
        if parent is None:
            return None
        limits = kernel_limits(spec.limits, has_account=place.account is not None)
        return await parent.fork(env, limits, place)

    def close(self) -> None:
        """Blocks."""
        for parent in self._parents.values():
            parent.close()
        self._parents.clear()

    async def _warm(
        self, key: tuple[Path, str], spec: ServerFile, now: datetime
    ) -> WarmParent | None:
        world, name = key
        if old := self._parents.pop(key, None):
            await old.end()
            self._deaths[key] = self._deaths.get(key, 0) + 1
            if self._deaths[key] >= MAX_DEATHS:
                self._give_up(key, f"it ended {MAX_DEATHS} times")
                return None
        place = await asyncio.to_thread(self._place)
        try:
            parent, child = self._start(name, spec, world, now, place)
        except BaseException:
            await asyncio.to_thread(place.release)
            raise
        try:
            await parent.ready(spec.start_seconds)
        except NotForkable as error:
            await child.bury(0.5)
            said = parent.last_words()
            await parent.end()
            is_refused = child.poll() == account_space.NO_NAMESPACE
            self._give_up(key, "there is no user namespace" if is_refused else str(error), said)
            return None
        except BaseException:
            await parent.end()
            raise
        self._parents[key] = parent
        return parent

    def _give_up(self, key: tuple[Path, str], why: str, said: str = "") -> None:
        self._cold.add(key)
        log.warning("a server cannot be kept warm", server=key[1], reason=why, stderr=said)

    def _start(
        self, name: str, spec: ServerFile, world: Path, now: datetime, place: Place
    ) -> tuple[WarmParent, StartedChild]:
        env = environment_of(spec, world, place, {"ENVFARM_NOW": now.isoformat()})
        limits = kernel_limits(spec.limits, has_account=place.account is not None)
        # It lives as long as we do.
        del limits["RLIMIT_CPU"]
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            program = program_of(name, spec, world, env["PATH"])
            argv = limited(through(self.script, program, spec, now, its.fileno()), limits)
            if place.account and self._accounts:
                space = [self._accounts.start, len(self._accounts), place.account.number]
                argv = [
                    *(sys.executable, "-I", "-S", account_space.__file__),
                    *(map(str, space)),
                    *argv,
                ]
            # Pipes, as sessions get: what Python once found out of its files it does not ask again.
            process = subprocess.Popen(
                child_command(argv, death=signal.SIGKILL),
                cwd=folder_of(world, place),
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[its.fileno()],
                start_new_session=True,
            )
            assert process.stdin
            process.stdin.close()
        except BaseException:
            ours.close()
            raise
        finally:
            its.close()
        child = StartedChild(process)
        return WarmParent(name, place, child, ours), child
