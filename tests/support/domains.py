"""The realistic small domain alone: a stack proves it in seconds, the demo's in minutes."""

import shutil
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[2]


def orders_alone(folder: Path, tasks: Collection[str] = ()) -> Path:
    """A folder of domains that holds `orders` and nothing else; of its tasks these, or all."""
    shutil.copytree(
        ROOT / "domains/orders", folder / "orders", ignore=shutil.ignore_patterns("__pycache__")
    )
    for part in ("world/tasks", "private", "user"):
        for path in (folder / "orders" / part).glob("*.yaml"):
            if tasks and f"orders/{path.stem}" not in tasks:
                path.unlink()
    # The env-server's Postgres may run under another account.
    folder.chmod(0o755)
    return folder
