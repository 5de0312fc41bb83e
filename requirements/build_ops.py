"""Compiles DeepSpeed's C++ ops for this CPU, once, into the virtual environment.

DeepSpeed builds an op at its first use: in the middle of a run, in a cache under the home folder that
every checkout shares and rebuilds for the others. Here each environment has its own, in
`<venv>/torch_extensions`, where the learner looks (learner/settings.py). An op that stands there
already and fits is not built again. Called by setup.sh, which says where.
"""

import importlib
import sys
from contextlib import redirect_stdout

OPS = ("CPUAdamBuilder", "ShareMemCommBuilder")
"""The optimizer that steps offloaded states, and the all-reduce of ranks on one machine."""


def main() -> int:
    with redirect_stdout(sys.stderr):  # DeepSpeed and ninja talk there
        builders = importlib.import_module("deepspeed.ops.op_builder.cpu")
        for name in OPS:
            try:
                getattr(builders, name)().load(verbose=False)
            except (RuntimeError, ImportError, OSError) as error:
                print(f"DeepSpeed's {name} was not built: {error}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
