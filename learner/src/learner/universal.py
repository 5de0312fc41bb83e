"""DeepSpeed's universal form of a checkpoint: the one that any number of ranks can read.

ZeRO's shards belong to the number of ranks that wrote them. DeepSpeed converts them offline; its
converter runs as a process of its own, so that what it loads and prints stays out of ours.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from envfarm.errors import CheckpointError

STATE = "state"


def has_shards(path: Path) -> bool:
    """True for a checkpoint of ZeRO 1 to 3; at stage 0 one file holds everything for all."""
    return any((path / STATE).glob("*zero_pp_rank_*_optim_states.pt"))


def convert(path: Path, target: Path) -> None:
    """Write `target`/state from a verified checkpoint; CheckpointError with the converter's words."""
    if target.exists():
        shutil.rmtree(target)
    target.mkdir()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal"),
            *("--input_folder", path / STATE, "--output_folder", target / STATE),
            *("--num_extract_workers", "1", "--num_merge_workers", "1", "--inject_missing_state"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise CheckpointError(
            f"{path} cannot be converted for another number of ranks: {last}",
            hint="start as many ranks as wrote it",
        )
