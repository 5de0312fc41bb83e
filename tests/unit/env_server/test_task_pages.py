"""Pages of tasks: together they are every task once, and none is too large for a message."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from envfarm.task_pages import every_task
from envfarm.v1 import env_service_pb2 as pb
from envfarm.v1 import task_pb2
from hypothesis import given
from hypothesis import strategies as st

from env_server import wire


def task_of(size: int) -> Any:
    """A task whose id tells its size."""
    return SimpleNamespace(task_id=f"shop/{size:04d}", size=size)


def message(task: Any) -> task_pb2.Task:
    return task_pb2.Task(ref=task_pb2.TaskRef(task_id=task.task_id), policy="x" * task.size)


@pytest.fixture(autouse=True, scope="module")
def small_pages():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "task_message", message)
        patch.setattr(wire, "PAGE_BYTES", 1000)
        yield


@given(st.sets(st.integers(0, 1500), max_size=40))
def test_all_pages_hold_every_task_once_and_no_page_is_too_large(sizes: set[int]):
    asked: list[str] = []

    async def ask(request: pb.ListTasksRequest) -> pb.ListTasksResponse:
        asked.append(request.page_token)
        page = wire.task_page([task_of(size) for size in sizes], request.page_token)
        assert len(page.tasks) <= 1 or sum(task.ByteSize() for task in page.tasks) <= 1000
        return page

    found = asyncio.run(every_task(ask))
    assert [len(task.policy) for task in found.values()] == sorted(sizes)
    assert len(asked) == len(set(asked)) <= max(1, len(sizes))


def test_a_domain_is_asked_for_on_every_page():
    asked: list[tuple[str, str]] = []

    async def ask(request: pb.ListTasksRequest) -> pb.ListTasksResponse:
        asked.append((request.domain, request.page_token))
        return wire.task_page([task_of(size) for size in (600, 700, 800)], request.page_token)

    asyncio.run(every_task(ask, "shop"))
    assert asked == [("shop", ""), ("shop", "shop/0600"), ("shop", "shop/0700")]
