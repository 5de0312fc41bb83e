"""proofs/<name>.json: what a full campaign measured, on which commit and which machine."""

import json
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def machine() -> dict[str, Any]:
    """Cores, memory, processor and kernel: what a figure must be read with."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(pages / 2**30, 1),
        "processor": cpu,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def write_proof(name: str, figures: dict[str, Any]) -> Path:
    """Write the proof; `clean` says whether the tree was exactly that commit."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()

    changed = [line for line in git("status", "--porcelain").splitlines() if "proofs/" not in line]
    path = ROOT / "proofs" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        json.dumps(
            {
                "name": name,
                "commit": git("rev-parse", "HEAD"),
                "clean": not changed,
                "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "machine": machine(),
                **figures,
            },
            indent=2,
        )
        + "\n"
    )
    return path
