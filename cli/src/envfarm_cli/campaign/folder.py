"""The folder of one campaign: its recipe, its lock, its stages and their results.

recipe.json    the resolved recipe and its hash; a folder belongs to one recipe
lock           held while a command works on the campaign
stages.json    how far it has come (stages.py)
results/       one file per finished stage
"""

import fcntl
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Self

from envfarm_cli.campaign.files import read_json, write_json
from envfarm_cli.campaign.recipe import Recipe, differences
from envfarm_cli.failure import BadInput


class CampaignFolder:
    """`with CampaignFolder(path, recipe) as folder`: the folder is this process's alone."""

    def __init__(self, path: Path, recipe: Recipe):
        self.path = path.absolute()
        self.recipe = recipe
        self.id = ""
        """Made when the folder is; ends the names of its jobs, so that a campaign that begins anew
        never meets jobs of an earlier one."""
        self._lock = -1

    def result(self, stage: str) -> Path:
        return self.path / "results" / f"{stage}.json"

    def __enter__(self) -> Self:
        """BadInput when another process works here, or the folder belongs to another recipe."""
        try:
            (self.path / "results").mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise BadInput(
                f"{self.path} cannot be a campaign's folder: a file is in the way"
            ) from error
        self._take_lock()
        try:
            self._check_recipe()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._release()

    def _take_lock(self) -> None:
        self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._release()
            raise BadInput(
                f"another envfarm works in {self.path}",
                hint="wait for it, or stop it with Ctrl-C; nothing is lost",
            ) from error

    def _check_recipe(self) -> None:
        path, now = self.path / "recipe.json", self.recipe.plain()
        known = read_json(path)
        if known is None:
            known = {"id": secrets.token_hex(3), "recipe_hash": self.recipe.hash, "recipe": now}
            write_json(path, known)
        elif not isinstance(known, dict) or known.get("recipe") != now:
            before = known.get("recipe") if isinstance(known, dict) else None
            changed = differences(before if isinstance(before, dict) else {}, now)
            raise BadInput(
                f"{self.path} was begun with another recipe: {'; '.join(changed[:4])}",
                hint="choose another --name, or --fresh to put that one aside and begin anew",
            )
        self.id = str(known.get("id", ""))

    def _release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def put_aside(path: Path) -> Path | None:
    """Rename a campaign's folder, so that a new one can begin; None when there is none."""
    if not path.exists():
        return None
    number = 1
    while (aside := path.with_name(f"{path.name}.old-{number}")).exists():
        number += 1
    path.rename(aside)
    return aside
