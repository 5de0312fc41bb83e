"""A pipe's descriptor is closed once, whichever loop it belonged to."""

import asyncio
import os
from collections.abc import Callable

import pytest
import uvloop

from env_server.pipe_end import PipeEnd

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


class Raced(PipeEnd):
    """Between the two closes another thread opens a file and is given the same number."""

    def close(self) -> None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(self.fileno())
        other = os.open("/dev/null", os.O_RDONLY)
        os.dup2(other, self.fileno())
        os.close(other)
        super().close()


async def read_and_close(kind: type[PipeEnd]) -> tuple[PipeEnd, int, bytes]:
    """The closed end, the number that it had, and what was read."""
    loop = asyncio.get_running_loop()
    read, write = os.pipe()
    end = kind(os.fdopen(read, "rb", 0), loop)
    number, stream = end.fileno(), asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), end)
    os.write(write, b"said\n")
    said = await stream.readline()
    transport.close()
    os.close(write)
    # The loop closes it in a later step.
    await asyncio.sleep(0.01)
    return end, number, said


def run(new_loop: Callable[[], asyncio.AbstractEventLoop], kind: type[PipeEnd]):
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(read_and_close(kind))


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_closed_transport_closes_the_descriptor(new_loop):
    _, number, said = run(new_loop, PipeEnd)
    assert said == b"said\n"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_the_descriptor_that_another_thread_was_given_meanwhile_stays_open():
    _, number, _ = run(uvloop.new_event_loop, Raced)
    os.fstat(number)
    os.close(number)


def test_a_second_close_is_fine():
    end, number, _ = run(asyncio.new_event_loop, PipeEnd)
    other = os.open("/dev/null", os.O_RDONLY)
    end.close()
    os.fstat(other)
    os.close(other)
    assert end.fileno() == -1 != number
