"""A signal during a loop cancels what runs, and nothing of it is lost in the loop's callbacks."""

import asyncio
import os
import signal

import pytest

from envfarm_cli import interrupts, loops
from envfarm_cli.interrupts import Interrupted


@pytest.fixture(autouse=True)
def handlers():
    with interrupts.caught():
        yield


def stop(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


async def wait_and_clean(steps: list[str]) -> None:
    try:
        steps.append("waits")
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        steps.append("cleaned up")


@pytest.mark.parametrize("number", interrupts.CAUGHT)
def test_a_signal_inside_a_callback_ends_the_run_after_it_cleaned_up(number: int):
    steps: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().call_soon(stop, number)
        await wait_and_clean(steps)

    with pytest.raises(Interrupted) as caught:
        loops.run(main())
    assert caught.value.exit_code == 128 + number
    assert steps == ["waits", "cleaned up"]


def test_a_signal_while_the_loop_sleeps_wakes_it():
    before = signal.signal(signal.SIGALRM, lambda *_: stop())
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(Interrupted):
            loops.run(wait_and_clean([]))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_signal_before_the_first_step_is_not_forgotten():
    async def main() -> None:
        await asyncio.Event().wait()

    with loops.Runner() as runner, pytest.raises(Interrupted):
        coro = main()
        loop = runner._runner.get_loop()  # pyright: ignore[reportPrivateUsage]
        loop.call_soon(stop)
        runner.run(coro)


def test_a_runner_cleans_up_in_a_further_coroutine():
    steps: list[str] = []

    async def clean() -> None:
        steps.append("closed")

    with loops.Runner() as runner:

        async def main() -> None:
            stop()
            await asyncio.Event().wait()

        with pytest.raises(Interrupted):
            try:
                runner.run(main())
            finally:
                runner.run(clean())
    assert steps == ["closed"]


def test_a_held_signal_is_raised_after_the_run_is_whole():
    steps: list[str] = []

    async def main() -> str:
        with interrupts.held():
            stop()
            await asyncio.sleep(0)
            steps.append("whole")
        await asyncio.Event().wait()
        return "never"

    with pytest.raises(Interrupted):
        loops.run(main())
    assert steps == ["whole"]


def test_without_a_signal_the_value_is_handed_on():
    async def main() -> int:
        await asyncio.sleep(0)
        return 7

    assert loops.run(main()) == 7
