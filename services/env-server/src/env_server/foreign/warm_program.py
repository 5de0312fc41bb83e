"""Runs a server's program up to its first event loop, waits there, and forks a process for each session.

    python warm_program.py CONTROL NOW -m MODULE [ARGUMENT ...]
    python warm_program.py CONTROL NOW FILE [ARGUMENT ...]

CONTROL is the number of a socket, -1 for a program that is to run once and at once. NOW freezes the
clock, "-" leaves it. Over the socket come {"id", "environment", "limits", "account"} with stdin, stdout
and stderr of a session, and {"bury"}; back go {"ready"}, {"id", "pid"} and {"exited", "code"}.

Nothing may run when it forks but this one thread: no event loop exists yet, and a program that has
started threads is not forked. A session gives up all that the parent may do before it goes on.
"""

import ctypes
import gc
import json
import os
import resource
import runpy
import select
import signal
import socket
import sys

MARK = "ENVFARM_MOUNT"
MAX_MESSAGE = 1 << 20
NOT_OURS = 125
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_CAP_AMBIENT, _CLEAR_ALL = 1, 47, 4
_CAPABILITY_VERSION = 0x20080522


def main():
    control, now, program = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if now != "-":
        import frozen_clock  # pyright: ignore[reportMissingImports]

        frozen_clock.freeze(now)
    if control >= 0:
        # Not ours to keep for programs that the server starts.
        os.set_inheritable(control, False)
        _stop_at_first_loop(socket.socket(fileno=control))
    if program[0] == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = program[1:]
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
        sys.argv = program
        runpy.run_path(program[0], run_name="__main__")


def _stop_at_first_loop(control):
    from asyncio import unix_events

    kind = unix_events._UnixSelectorEventLoop
    original = kind.__init__

    def first(loop, *given, **named):
        kind.__init__ = original
        _serve(control)
        original(loop, *given, **named)

    kind.__init__ = first  # pyright: ignore[reportAttributeAccessIssue]


def _serve(control):
    """Returns in a session alone."""
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        _tell(control, {"threads": threads})
        os._exit(NOT_OURS)
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    old_wakeup = signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    old_child = signal.signal(signal.SIGCHLD, lambda *_: None)
    parent, mark = os.getpid(), _address_of_mark()
    living = set()
    # Objects that no collection looks at stay shared: it would write into their pages.
    gc.collect()
    gc.freeze()
    _tell(control, {"ready": True})
    while True:
        readable, _, _ = select.select([control, wake], [], [])
        if wake in readable:
            os.read(wake, 4096)
        for pid in list(living):
            if code := _code(pid):
                living.discard(pid)
                _tell(control, {"exited": pid, "code": code[0]})
        if control not in readable:
            continue
        data, files, _, _ = socket.recv_fds(control, MAX_MESSAGE, 3)
        if not data:
            os._exit(0)
        asked = json.loads(data)
        if "bury" in asked:
            os.waitpid(asked["bury"], 0)
            continue
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(old_wakeup)
            signal.signal(signal.SIGCHLD, old_child)
            for unused in (wake, woken, control.detach()):
                os.close(unused)
            _become_session(asked, files, parent, mark)
            return
        for given in files:
            os.close(given)
        living.add(pid)
        _tell(control, {"id": asked["id"], "pid": pid})


def _become_session(asked, files, parent, mark):
    try:
        os.setsid()
        for number, own in enumerate(files):
            os.dup2(own, number)
            os.close(own)
        for name, value in asked["limits"].items():
            resource.setrlimit(getattr(resource, name), (value, value))
        if asked["account"]:
            user, group = asked["account"]
            os.setgroups([])
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
        _drop_capabilities()
        # After the change of account, which would undo it.
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(NOT_OURS)
        environment = asked["environment"]
        if mark:
            # What /proc shows is the memory of the program's start, which a new variable leaves alone.
            value = environment[MARK].encode()
            ctypes.memmove(mark, value, min(len(value), len(ctypes.string_at(mark))))
        variables = os.environ  # noqa: TID251 - what the session's program reads, not a setting of ours
        variables.clear()
        variables.update(environment)
        if "tempfile" in sys.modules:
            setattr(sys.modules["tempfile"], "tempdir", None)  # noqa: B010
    except (OSError, ValueError, LookupError) as error:
        os.write(2, f"a session cannot begin: {error!r}\n".encode())
        os._exit(NOT_OURS)


def _drop_capabilities():
    _LIBC.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    if _LIBC.capset(header, (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno(), "capset")


def _address_of_mark():
    _LIBC.getenv.restype = ctypes.c_void_p
    return _LIBC.getenv(MARK.encode())


def _code(pid):
    """How a child ended, as subprocess tells it, in a tuple; None while it runs. It stays a zombie, so
    that its number is nobody else's, until its owner says that it may be buried."""
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return None
    is_exit = found.si_code == os.CLD_EXITED
    return (found.si_status if is_exit else -found.si_status,)


def _tell(control, message):
    try:
        control.send(json.dumps(message).encode())
    except OSError:
        os._exit(0)


if __name__ == "__main__":
    main()
