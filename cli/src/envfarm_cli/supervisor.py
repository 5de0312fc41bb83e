"""The process that owns a running stack: `python -m envfarm_cli.supervisor`, started by `envfarm up`.

It ends on SIGTERM, SIGINT or SIGHUP and takes the whole stack along.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from envfarm_cli import interrupts, settings, state_dir
from envfarm_cli.children import last_words, no_room
from envfarm_cli.failure import ChildFailed, Failure, as_failure, report
from envfarm_cli.process_table import Identity, identify, is_alive, signal_process
from envfarm_cli.service_specs import StackOptions
from envfarm_cli.stack import Stack
from envfarm_cli.state_dir import StackState, StateDir

STOP_SECONDS = 120


def supervise(
    state: StateDir,
    options: StackOptions,
    say: Callable[[str], None],
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Run a stack until we are interrupted; raises the Failure that kept it from starting."""
    state.make()
    state.lock()
    for name in state.sweep():
        say(f"{name}: was left over by a stack that had been killed; stopped")
    stack = Stack(state, options, say)
    try:
        stack.start()
        on_ready()
        stack.watch()
    except Exception as error:
        stack.enter(state_dir.FAILED, as_failure(error))
        raise
    finally:
        with interrupts.final():
            stack.stop()
            if stack.phase != state_dir.FAILED:
                state.forget()


def spawn(state: StateDir, options: StackOptions) -> Identity:
    """Start a supervisor in the background, in a session of its own."""
    state.make()
    argv = [sys.executable, "-m", "envfarm_cli.supervisor", str(state.path), options.to_json()]
    with interrupts.held(), state.log("supervisor").open("wb") as output:
        process = subprocess.Popen(
            argv,
            env={"PATH": settings.search_path(), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return identify(process.pid) or Identity(process.pid, 0)


def wait_until_ready(
    state: StateDir, supervisor: Identity, on_change: Callable[[StackState], None]
) -> StackState:
    """Follow state.json until the stack serves; Failure when it does not come up."""
    log = state.log("supervisor")
    while True:
        alive = is_alive(supervisor)
        now = state.read()
        if now is not None and now.supervisor == supervisor:
            on_change(now)
            if now.phase in (state_dir.READY, state_dir.DEGRADED):
                return now
            if now.phase == state_dir.FAILED and not alive:
                state.forget()
                failure = Failure(now.message, hint=now.hint)
                failure.exit_code = now.exit_code
                raise failure
        if not alive:
            raise ChildFailed(
                f"the supervisor ended: {last_words(log)}", hint=no_room(log) or f"read {log}"
            )
        time.sleep(0.1)


def stop(supervisor: Identity) -> bool:
    """Ask a supervisor to stop everything and wait; False when it had to be killed."""
    import signal

    signal_process(supervisor.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while is_alive(supervisor):
        if time.monotonic() > deadline:
            signal_process(supervisor.pid, signal.SIGKILL)
            return False
        time.sleep(0.05)
    return True


def _log(line: str) -> None:
    # A full disk must not end a stack that serves.
    with contextlib.suppress(OSError):
        print(line)


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 after a stop that was asked for."""
    folder, options = sys.argv[1:] if arguments is None else arguments
    try:
        with interrupts.caught():
            supervise(StateDir(Path(folder)), StackOptions.from_json(options), _log)
    except interrupts.Interrupted:
        return 0
    except Exception as error:  # noqa: BLE001 - top level of the process
        return report(as_failure(error), as_json=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
