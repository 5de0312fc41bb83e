"""An interpreter that has TRL, in a folder of the test: TRL is no part of envfarm.

It sees the packages of the environment that runs the test, and TRL with accelerate on top of them.
"""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

PINNED = ("trl==1.16.0", "accelerate==1.15.0", "datasets==5.2.0")


def make(folder: Path) -> Path | None:
    """The interpreter; None when the packages cannot be had here, as without a network."""
    venv.create(folder, with_pip=False, symlinks=True)
    own = folder / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    (own / "beneath.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "install"]
    done = subprocess.run(
        [*command, "--quiet", *PINNED],
        capture_output=True,
        timeout=300,
        check=False,
    )
    return None if done.returncode else folder / "bin/python"
