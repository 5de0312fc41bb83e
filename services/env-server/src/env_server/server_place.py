"""Where one server process lives: a scratch folder and, as root, an account of its own."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from envfarm_common import logging

from env_server.server_accounts import Account
from env_server.server_strays import end_all, marked, of_account

log = logging.get(__name__)

MARK = "ENVFARM_MOUNT"
"""Variable that names a server's scratch folder, by which its processes are known again."""


@dataclass(frozen=True, slots=True)
class Place:
    """One server's folder and account; `release` ends whatever still runs there."""

    folder: Path
    account: Account | None

    @property
    def ids(self) -> tuple[int, int] | None:
        return self.account.ids if self.account else None

    def end(self) -> None:
        """End every process of this place. Blocks."""
        find = of_account(self.account.number) if self.account else marked(MARK, str(self.folder))
        if not end_all(find):
            log.error("a server's process cannot be killed", place=self.folder.name)

    def release(self) -> None:
        """Blocks."""
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.account:
            self.account.give_back()
