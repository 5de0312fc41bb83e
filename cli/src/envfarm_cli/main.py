"""The `envfarm` command. Here, and only here, an error becomes one line and an exit code."""

import sys
import traceback
from contextlib import nullcontext

from envfarm_cli import interrupts, settings
from envfarm_cli.results import results_only


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in given
    try:
        with interrupts.caught(), results_only() if as_json else nullcontext():
            # Imported here, because it takes a second in which Ctrl-C is a Ctrl-C, too.
            from envfarm_cli import commands

            return commands.run(given)
    except interrupts.Interrupted as stop:
        print(f"\nstopped by {stop}; nothing of it is left running", file=sys.stderr)
        return stop.exit_code
    except BrokenPipeError:
        # The reader of our output has gone; there is nobody to tell.
        sys.stderr.close()
        return 1
    except Exception as error:  # noqa: BLE001 - top level of the process
        from envfarm_cli import failure

        if settings.debug():
            traceback.print_exc()
        return failure.report(failure.as_failure(error), as_json=as_json)


if __name__ == "__main__":
    raise SystemExit(main())
