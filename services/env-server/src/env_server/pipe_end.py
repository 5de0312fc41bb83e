"""Our end of a pipe, for an event loop: its descriptor is closed once.

uvloop has libuv close the descriptor of a pipe and then closes the file object, too. A thread that opens
something in between is given the same number, and the second close takes its file or socket away.
"""

import asyncio
import os
from typing import IO


class PipeEnd:
    """What `connect_read_pipe` and `connect_write_pipe` take in place of `pipe`, which is closed."""

    def __init__(self, pipe: IO[bytes], loop: asyncio.AbstractEventLoop):
        self._number = os.dup(pipe.fileno())
        pipe.close()
        self._is_closed_by_loop = type(loop).__module__.partition(".")[0] == "uvloop"

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        """Called by the loop; a second time is fine."""
        if self._number >= 0 and not self._is_closed_by_loop:
            os.close(self._number)
        self._number = -1
