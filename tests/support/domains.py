"""The realistic small domain alone: a stack proves it in seconds, the demo's in minutes."""

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]


def orders_alone(folder: Path) -> Path:
    """A folder of domains that holds `orders` and nothing else."""
    shutil.copytree(
        ROOT / "domains/orders", folder / "orders", ignore=shutil.ignore_patterns("__pycache__")
    )
    # The env-server's Postgres may run under another account.
    folder.chmod(0o755)
    return folder
