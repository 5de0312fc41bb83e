"""Seats are divided fairly, and none is lost."""

import asyncio

from rollout_gateway.seats import Seats


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Attempts:
    def __init__(self, seats: Seats, job: str, share: int = 1):
        self.seats, self.job, self.share = seats, job, share
        self.seated: list[int] = []
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.leave: dict[int, asyncio.Event] = {}

    def want(self, *places: int) -> None:
        for place in places:
            self.leave[place] = asyncio.Event()
            self.tasks[place] = asyncio.create_task(self._sit(place))

    async def _sit(self, place: int) -> None:
        async with self.seats.seat(self.job, self.share, (place, 0)):
            self.seated.append(place)
            await self.leave[place].wait()


async def test_a_job_alone_gets_every_seat_and_its_oldest_group_first():
    seats = Seats(2)
    job = Attempts(seats, "a")
    job.want(3, 1, 2)
    await settle()
    assert job.seated == [3, 1]
    job.leave[3].set()
    await settle()
    assert job.seated == [3, 1, 2]
    for event in job.leave.values():
        event.set()
    await settle()
    assert seats.held == 0


async def test_a_freed_seat_goes_to_the_job_with_fewest_for_its_share():
    seats = Seats(4)
    one, two = Attempts(seats, "one"), Attempts(seats, "two", share=3)
    one.want(*range(8))
    await settle()
    two.want(*range(8))
    for place in range(4):
        one.leave[place].set()
        await settle()
    assert (seats.held_by("one"), seats.held_by("two")) == (1, 3)
    for task in (*one.tasks.values(), *two.tasks.values()):
        task.cancel()
    await settle()
    assert (seats.held, seats.waiting) == (0, 0)


async def test_a_cancelled_wait_loses_no_seat():
    seats = Seats(1)
    job = Attempts(seats, "a")
    job.want(0, 1, 2)
    await settle()
    # Cancelled in the same instant in which the seat was granted to it.
    job.leave[0].set()
    await asyncio.sleep(0)
    job.tasks[1].cancel()
    await settle()
    assert job.seated == [0, 2] or job.seated == [0, 1, 2]
    job.leave[2].set()
    await settle()
    assert seats.held == 0


async def test_a_job_is_hungry_when_nothing_of_it_waits():
    seats = Seats(1)
    job = Attempts(seats, "a")
    await seats.wait_until_hungry("a")
    job.want(0, 1)
    await settle()
    hungry = asyncio.create_task(seats.wait_until_hungry("a"))
    await settle()
    assert not hungry.done()
    job.leave[0].set()
    await settle()
    assert hungry.done()
    seats.limit = 3
    job.want(2, 3)
    await settle()
    assert job.seated == [0, 1, 2, 3]
    for event in job.leave.values():
        event.set()
