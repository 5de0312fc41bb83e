"""Build the DeepSpeed ops that a CPU run loads, so that no training step waits for a compiler."""

import contextlib
import io
import sys


def main() -> int:
    noise = io.StringIO()
    with contextlib.redirect_stdout(noise), contextlib.redirect_stderr(noise):
        from deepspeed.ops.op_builder.cpu import CPUAdamBuilder, ShareMemCommBuilder

        builders = [CPUAdamBuilder(), ShareMemCommBuilder()]
        failed = []
        for builder in builders:
            if not builder.is_compatible(verbose=False):
                continue
            try:
                builder.load(verbose=False)
            except (RuntimeError, ImportError, OSError) as error:
                failed.append(f"{builder.name}: {error}")
    for line in failed:
        print(f"DeepSpeed op not built: {line}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
