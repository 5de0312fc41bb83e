"""A seccomp filter that leaves a process its memory, its clock, one pipe to write to, and its end.

Everything else (opening files, sockets, processes, threads, signals to others) answers EPERM. It
needs no privilege and no namespace, so it also holds inside containers. Layout of the filter: Linux
`Documentation/userspace-api/seccomp_filter.rst`; numbers: the kernel's syscall tables.
"""

import ctypes
import errno
import platform
import struct

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""AUDIT_ARCH_* by `platform.machine()`."""

_WRITE = {"x86_64": 1, "aarch64": 64}
_MAP = {"x86_64": (9, 10), "aarch64": (222, 226)}
"""mmap, mprotect: allowed unless they ask for executable memory."""
_ALLOWED = {
    # munmap brk rt_sigaction rt_sigprocmask rt_sigreturn mremap madvise exit futex clock_gettime
    # clock_getres exit_group getrandom
    "x86_64": (11, 12, 13, 14, 15, 25, 28, 60, 202, 228, 229, 231, 318),
    "aarch64": (215, 214, 134, 135, 139, 216, 233, 93, 98, 113, 114, 94, 278),
}

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SECCOMP_MODE_FILTER = 22, 38, 2
_LOAD, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENT_0, _ARGUMENT_2 = 0, 4, 16, 32
_PROT_EXEC = 4


def supported() -> bool:
    """Whether the filter is known for this kind of machine."""
    return platform.system() == "Linux" and platform.machine() in _ARCHITECTURES


def enter(result_fd: int) -> None:
    """Lock this process in for good; only `result_fd` can be written to. OSError when refused."""
    program = _program(platform.machine(), result_fd)
    code = ctypes.create_string_buffer(b"".join(program), 8 * len(program))
    # struct sock_fprog: the count, then a pointer at its natural alignment.
    header = struct.pack("@HP", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    _require(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _require(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(header), 0, 0))


def _require(status: int) -> None:
    if status != 0:
        raise OSError(ctypes.get_errno(), "the kernel takes no seccomp filter")


def _program(machine: str, result_fd: int) -> list[bytes]:
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_JUMP_EQUAL, _ARCHITECTURES[machine], yes=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    for number in _ALLOWED[machine]:
        program += [_step(_JUMP_EQUAL, number, no=1), _step(_RETURN, _ALLOW)]
    for number in _MAP[machine]:
        program += [
            _step(_JUMP_EQUAL, number, no=4),
            _step(_LOAD, _ARGUMENT_2),
            _step(_JUMP_SET, _PROT_EXEC, yes=1),
            _step(_RETURN, _ALLOW),
            _step(_RETURN, _REFUSE),
        ]
    # A descriptor is an int: the kernel looks at the lower half of the argument only.
    program += [
        _step(_JUMP_EQUAL, _WRITE[machine], no=3),
        _step(_LOAD, _ARGUMENT_0),
        _step(_JUMP_EQUAL, result_fd, no=1),
        _step(_RETURN, _ALLOW),
        _step(_RETURN, _REFUSE),
    ]
    return program


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)
