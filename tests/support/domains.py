"""One domain alone: an env-server loads it, and a stack proves it, in a fraction of the time of all."""

import shutil
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[2]


def domain_alone(folder: Path, name: str, tasks: Collection[str] = ()) -> Path:
    """A folder of domains that holds this one and nothing else; of its tasks these, or all."""
    shutil.copytree(
        ROOT / "domains" / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
    )
    for part in ("world/tasks", "private", "user"):
        for path in (folder / name / part).glob("*.yaml"):
            if tasks and f"{name}/{path.stem}" not in tasks:
                path.unlink()
    # The env-server's Postgres may run under another account.
    folder.chmod(0o755)
    return folder


def orders_alone(folder: Path, tasks: Collection[str] = ()) -> Path:
    """The realistic small one."""
    return domain_alone(folder, "orders", tasks)
