"""Where server processes of this env-server live: a scratch folder and, as root, an account for each.

What a dead env-server left is found by the lock of its room: folders go, processes are ended.
"""

import asyncio
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

from envfarm.errors import ConfigError, NoCapacity
from envfarm_common import logging

from env_server.episode_files import lock_folder, remove_if_dead
from env_server.server_accounts import Accounts
from env_server.server_place import MARK, Place
from env_server.server_strays import end_all, marked
from env_server.warm_starts import WarmStarts

log = logging.get(__name__)

PREFIX = "servers-"


class ServerRoom:
    """Made once per env-server that has worlds with servers; ConfigError when it cannot be."""

    def __init__(self, base: Path, accounts: range | None, starts_at_once: int):
        self.starting = asyncio.Semaphore(starts_at_once)
        """Held while a server starts, so that a burst of opens does not starve all of them."""
        try:
            base.mkdir(parents=True, exist_ok=True)
            for folder in base.glob(PREFIX + "*"):
                remove_if_dead(folder, partial(end_all, marked(MARK, f"{folder}/")))
            self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
            self._lock = lock_folder(self.folder)
            self._accounts = Accounts(accounts) if accounts else None
            self.warm = WarmStarts(self.folder, accounts, self.place)
        except OSError as error:
            raise ConfigError(f"{base}: no folder for servers: {error.strerror}") from error
        if self._accounts:
            self.folder.chmod(0o711)
            self._accounts.sweep()
        elif os.geteuid() == 0:
            log.warning("servers of worlds run as root: ENV_SERVER_SERVER_ACCOUNTS is empty")

    def place(self) -> Place:
        """A folder and an account for one server; NoCapacity when there is none left. Blocks."""
        account = self._accounts.take() if self._accounts else None
        try:
            folder = Path(tempfile.mkdtemp(dir=self.folder))
            if account:
                os.chown(folder, *account.ids)
        except OSError as error:
            if account:
                account.give_back()
            raise NoCapacity(
                f"no folder for a server: {error.strerror}", retry_after_seconds=1.0
            ) from error
        return Place(folder, account)

    def close(self) -> None:
        """Blocks."""
        self.warm.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)
