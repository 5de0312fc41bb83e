"""Who grades a request: one process at a time, and nobody any more when that process dies.

One byte of a shared file is locked per request id, at an offset that the id decides. The kernel
gives the lock up with the process, so a worker that is killed leaves no claim behind.
"""

import fcntl
import hashlib
from pathlib import Path


class Claims:
    """Claims of one process. Within the process nobody is kept out; `replay.py` sees to that."""

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # POSIX locks of a process end when it closes any descriptor of the file: this is the only one.
        self._file = path.open("ab")

    def take(self, request_id: str) -> bool:
        """Whether the claim is ours now; False while another process has it."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _offset(request_id))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def release(self, request_id: str) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _offset(request_id))

    def close(self) -> None:
        self._file.close()


def _offset(request_id: str) -> int:
    return int.from_bytes(hashlib.sha256(request_id.encode()).digest()[:7])
