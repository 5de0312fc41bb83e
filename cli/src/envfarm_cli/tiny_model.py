"""The tiny model of the stack, made once per state folder from the domains' public text."""

import sys
from pathlib import Path

from envfarm.canonical import bytes_hash, content_hash

from envfarm_cli import service_specs
from envfarm_cli.children import ChildSet, died
from envfarm_cli.failure import BadInput
from envfarm_cli.state_dir import StateDir

SEED = 42
PARTS = ("world/policy.md", "world/tools.py", "world/seed.sql", "world/tasks/*.yaml", "user/*.yaml")


def tiny_model(children: ChildSet, state: StateDir, domains: Path) -> Path:
    """Folder of the model; made when this text, seed and recipe have none yet."""
    texts = [path for part in PARTS for path in sorted(domains.glob(f"*/{part}"))]
    if not texts:
        raise BadInput(
            f"{domains} holds no domain", hint="run envfarm in its repository, or give --domains"
        )
    recipe = content_hash([SEED, [bytes_hash(path.read_bytes()) for path in texts]])
    folder = state.path / "models" / f"tiny-{recipe[:12]}"
    if (folder / "complete").exists():
        return folder
    child = children.start(
        "tiny-model",
        [
            *(sys.executable, "-m", "learner.tiny_model"),
            *("--out", folder, "--seed", str(SEED), "--text", *texts),
        ],
        env=service_specs.base_env(state),
        log=state.log("tiny-model"),
    )
    if children.wait_end(child):
        raise died(child, "while making the tiny model")
    (folder / "complete").touch()
    return folder
