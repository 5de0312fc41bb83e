"""All tasks of an env-server, which answers ListTasks in pages."""

from collections.abc import Awaitable, Callable

from envfarm.v1.env_service_pb2 import ListTasksRequest, ListTasksResponse
from envfarm.v1.task_pb2 import Task


async def every_task(
    ask: Callable[[ListTasksRequest], Awaitable[ListTasksResponse]], domain: str = ""
) -> dict[str, Task]:
    """Tasks by id, of one domain or of all; `ask` sends one ListTasks and may raise what it likes."""
    found: dict[str, Task] = {}
    page = ""
    while True:
        answer = await ask(ListTasksRequest(domain=domain, page_token=page))
        found.update((task.ref.task_id, task) for task in answer.tasks)
        page = answer.next_page_token
        if not page:
            return found
