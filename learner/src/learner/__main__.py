"""`python -m learner train|check|plan --config FILE [--set section.key=value …]`, and `export`.

SIGTERM and SIGINT end the run between two updates, after a checkpoint; exit status 0. A second
signal ends the process at once, which loses nothing that a checkpoint holds. Errors with a name are
one line on stderr and exit status 1; 2 is a wrong command line.
"""

import argparse
import json
from pathlib import Path

from learner import command_end, config
from learner.command_end import results_only
from learner.plan.report import report
from learner.signals import stop_on_signals


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m learner")
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train until run.updates")
    check = commands.add_parser("check", help="print the recipe's hash and what it is made of")
    export = commands.add_parser(
        "export", help="write a checkpoint as a folder that engines load; prints where, as JSON"
    )
    export.add_argument("--run", type=Path, required=True, help="the run's folder")
    export.add_argument("--out", type=Path, required=True, help="a new folder")
    export.add_argument("--checkpoint", help="its name; the newest without it")
    plan = commands.add_parser("plan", help="what the run needs on its [cluster], as JSON")
    for command in (train, check, plan):
        command.add_argument("--config", type=Path, required=True, help="a TOML file")
        command.add_argument(
            "--set", action="append", default=[], metavar="A.B=VALUE", help="override one key"
        )
    options = parser.parse_args(arguments)
    return command_end.run(lambda: _command(options))


def _command(options: argparse.Namespace) -> None:
    if options.command == "export":
        _export(options)
        return
    resolved = config.load(options.config, options.set)
    if options.command == "check":
        print(resolved.described())
        return
    if options.command == "plan":
        print(json.dumps(report(resolved, options.config.parent)))
        return
    stop = stop_on_signals()
    results_only()
    from learner import session  # torch and DeepSpeed take seconds to import

    session.run(resolved, stop)


def _export(options: argparse.Namespace) -> None:
    with results_only() as results:
        from learner.export import export

        print(json.dumps(export(options.run, options.out, options.checkpoint)), file=results)


if __name__ == "__main__":
    raise SystemExit(main())
