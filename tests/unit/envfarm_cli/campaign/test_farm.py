"""A campaign sees all tasks, and says which process of its stack died, whoever hears of it first."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import httpx
import pytest
from envfarm.v1 import env_service_pb2 as pb
from envfarm.v1 import env_service_pb2_grpc, task_pb2

from envfarm_cli.campaign.farm import Farm, naming_the_dead
from envfarm_cli.failure import ChildFailed, NotRunning, as_failure

DIED = ChildFailed("gateway ended too early: killed by SIGKILL")


def after(looks: int):
    """A check that finds the death at that look."""
    left = [None] * (looks - 1)

    def check() -> None:
        if not left:
            raise DIED
        left.pop()

    return check


@pytest.mark.parametrize("looks", [1, 3])
@pytest.mark.parametrize("error", [ConnectionRefusedError("refused"), httpx.ConnectError("gone")])
def test_a_call_without_answer_is_the_death_of_the_process(error: Exception, looks: int):
    with pytest.raises(ChildFailed) as failure, naming_the_dead(after(looks)):
        raise error
    assert failure.value is DIED and failure.value.__cause__ is error


def test_a_silence_of_living_processes_stays_what_it_is():
    with pytest.raises(ConnectionRefusedError) as error:
        with naming_the_dead(lambda: None, seconds=0.1):
            raise ConnectionRefusedError("refused")
    assert isinstance(as_failure(error.value), NotRunning)


def test_what_is_no_silence_is_not_looked_into():
    with pytest.raises(OSError, match="full"), naming_the_dead(after(1)):
        raise OSError(28, "full")


class OneTaskAPage(env_service_pb2_grpc.EnvServiceServicer):
    """An env-server whose every page is full with one task."""

    def ListTasks(self, request: pb.ListTasksRequest, context: Any) -> pb.ListTasksResponse:
        number = int(request.page_token or 0)
        task = task_pb2.Task(ref=task_pb2.TaskRef(task_id=f"shop/t{number}"))
        following = str(number + 1) if number < 2 else ""
        return pb.ListTasksResponse(tasks=[task], next_page_token=following)


def test_tasks_of_all_pages_are_seen():
    server = grpc.server(ThreadPoolExecutor(1))
    env_service_pb2_grpc.add_EnvServiceServicer_to_server(OneTaskAPage(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        farm = Farm(
            gateway=SimpleNamespace(),  # pyright: ignore[reportArgumentType]
            gateway_address="",
            gateway_http="",
            env_server=f"127.0.0.1:{port}",
            redis_url="",
            records=Path(),
            model=Path(),
            engine="scripted",
            state=SimpleNamespace(secrets=lambda: {"env_infra": "token"}),  # pyright: ignore
            check=lambda: None,
        )
        assert sorted(farm.tasks()) == ["shop/t0", "shop/t1", "shop/t2"]
    finally:
        server.stop(None)
