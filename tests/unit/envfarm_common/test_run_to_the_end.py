"""How a service process ends: exit status and one line."""

import asyncio

import pytest
from envfarm.errors import ConfigError
from envfarm_common import lifecycle


async def refused():
    raise ConfigError("no room", hint="make some")


async def refused_inside_a_task_group():
    async with asyncio.TaskGroup():
        await refused()


async def broken_inside_a_task_group():
    async with asyncio.TaskGroup():
        raise ValueError("a fault")


async def nothing():
    pass


def test_a_clean_end_is_status_0():
    assert lifecycle.run(nothing) == 0


@pytest.mark.parametrize("main", [refused, refused_inside_a_task_group])
def test_an_error_of_ours_is_one_line_and_status_1(main, capsys):
    assert lifecycle.run(main) == 1
    assert capsys.readouterr().err == "error: no room — make some\n"


def test_a_fault_is_not_hidden():
    with pytest.raises(BaseExceptionGroup, match="unhandled errors"):
        lifecycle.run(broken_inside_a_task_group)
