"""The pools of tasks: domains of full size, written by hand, of which some train and the others are held out.

Orders and counter, which are for tests and for the demo, belong to neither.
"""

from pathlib import Path

import yaml

DOMAINS = Path(__file__).parents[2] / "domains"
SMALL = {"orders", "counter"}


def _splits(domain: Path) -> set[str]:
    """Training or held out: what the tasks of a domain are for."""
    files = (domain / "world/tasks").glob("*.yaml")
    return {yaml.load(path.read_text(), yaml.CSafeLoader)["tags"]["split"] for path in files}


_FOUND = {path.parent.name: _splits(path.parent) for path in sorted(DOMAINS.glob("*/world"))}
POOLS = {
    split: [name for name, found in _FOUND.items() if found == {split} and name not in SMALL]
    for split in ("train", "eval")
}
"""Names of domains by `train` and `eval`."""
