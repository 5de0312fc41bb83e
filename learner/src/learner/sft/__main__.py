"""`python -m learner.sft CONFIG.toml [--set section.key=value …]`.

Progress goes to stderr, the path of summary.json to stdout. SIGTERM and SIGINT end the run after
the step in hand, with a checkpoint; started again, it goes on from there, bit for bit. Errors are
one line on stderr and exit status 1; 2 is a wrong command line. Under torchrun the ranks share each
step.
"""

import argparse
from pathlib import Path

from learner import command_end
from learner.config_file import load_as
from learner.signals import stop_on_signals


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m learner.sft",
        description="Supervised training on recorded rollouts: cross-entropy on the policy's own "
        "tokens. Writes DIR/model (a folder that engines load) and DIR/summary.json.",
    )
    parser.add_argument("config", type=Path, help="a TOML file; see learner/configs/sft-tiny.toml")
    parser.add_argument(
        "--set", action="append", default=[], metavar="A.B=VALUE", help="override one key"
    )
    options = parser.parse_args(arguments)
    return command_end.run(lambda: _train(options.config, options.set))


def _train(path: Path, overrides: list[str]) -> None:
    from learner.sft.config import Config

    config = load_as(Config, path, overrides)
    stop = stop_on_signals()
    results = command_end.results_only()
    from learner.sft import loop  # torch and DeepSpeed take seconds to import

    summary = loop.run(config, stop)
    if summary is not None:
        print(summary, file=results, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
