"""Becomes a program that may change to any account of a range and to no other, and may do nothing else.

    python account_space.py FIRST COUNT ACCOUNT PROGRAM [ARGUMENT ...]

Root starts it. A user namespace in which only the range exists holds the rights that a change of
account needs; outside of it they are worth nothing. Exit status 77 where the kernel, or who keeps us,
allows no such namespace.
"""

import ctypes
import os
import signal
import sys

NO_NAMESPACE = 77
_CLONE_NEWUSER = 0x10000000
_CAPABILITY_VERSION = 0x20080522
_RIGHTS = (5, 6, 7)
"""CAP_KILL, without which no session would end with its parent, CAP_SETGID and CAP_SETUID."""
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_PR_CAP_AMBIENT, _RAISE = 47, 2


def main() -> None:
    first, count, account, *program = sys.argv[1:]
    asked, answer = os.pipe(), os.pipe()
    # The maps are written from outside, where we are root.
    if os.fork() == 0:
        os.close(asked[1])
        os.close(answer[0])
        os._exit(_write_maps(os.getppid(), f"{first} {first} {count}\n", asked[0], answer[1]))
    libc = ctypes.CDLL(None)
    if libc.unshare(_CLONE_NEWUSER):
        sys.exit(NO_NAMESPACE)
    os.write(asked[1], b".")
    is_mapped = os.read(answer[0], 1) == b"+"
    os.wait()
    if not is_mapped:
        sys.exit(NO_NAMESPACE)
    for end in (*asked, *answer):
        os.close(end)
    number = int(account)
    os.setgroups([])
    os.setresgid(number, number, number)
    os.setresuid(number, number, number)
    _keep_rights(libc)
    # After the change of account, which would undo it.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.execv(program[0], program)


def _keep_rights(libc: ctypes.CDLL) -> None:
    """Over the exec that follows, and no other right ever again."""
    for right in range(64):
        if right not in _RIGHTS:
            libc.prctl(_PR_CAPBSET_DROP, right, 0, 0, 0)
    bits = sum(1 << right for right in _RIGHTS)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)(bits, bits, bits, 0, 0, 0)):
        sys.exit(NO_NAMESPACE)
    for right in _RIGHTS:
        if libc.prctl(_PR_CAP_AMBIENT, _RAISE, right, 0, 0):
            sys.exit(NO_NAMESPACE)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _write_maps(process: int, text: str, asked: int, answer: int) -> int:
    if not os.read(asked, 1):
        return 1
    try:
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{process}/{name}", "w") as target:
                target.write(text)
    except OSError:
        os.write(answer, b"-")
        return 1
    os.write(answer, b"+")
    return 0


if __name__ == "__main__":
    main()
