"""A further try of a run that its env-server could not see through: nobody's doing, the machine's least of all."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from envfarm.errors import DatabaseError, DeadlineError, GraderError

T = TypeVar("T")
TRIES = 3
"""Of one run."""
TROUBLE = (DatabaseError, DeadlineError, GraderError)
"""What says nothing about the task: a database that is gone, a deadline that passed, a peer that does not answer."""


async def with_more_tries(attempt: Callable[[], Awaitable[T]]) -> T:
    """What `attempt` gives; it takes an episode of its own each time. The last try's trouble is raised."""
    for _ in range(TRIES - 1):
        try:
            return await attempt()
        except TROUBLE:
            continue
    return await attempt()
