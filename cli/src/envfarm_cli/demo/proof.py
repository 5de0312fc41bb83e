"""The summary of a demonstration as a proof: with commit, date and machine."""

import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

from envfarm_cli.campaign.files import write_json


def write_proof(path: Path, summary: dict[str, Any]) -> None:
    """Write it; `clean` says whether the tree was exactly that commit, apart from proofs."""
    changed = [line for line in _git("status", "--porcelain").splitlines() if "proofs/" not in line]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    write_json(
        path,
        {
            "name": path.stem,
            "commit": _git("rev-parse", "HEAD"),
            "clean": not changed,
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": {
                "cores": os.cpu_count(),
                "memory_gib": round(pages / 2**30, 1),
                "kernel": platform.release(),
                "python": platform.python_version(),
            },
            **summary,
        },
    )


def _git(*arguments: str) -> str:
    """Empty outside a repository."""
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
