"""MCP servers of others inside episodes: what an agent reaches, what becomes evidence, what a server
that dies, hangs or hides can do, and what is left of it."""

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from envfarm.errors import ForeignServerError
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.env_server import EnvClient, EnvServer, running_env_server
from tests.support.polling import wait_until

DOMAINS = Path(__file__).parents[2] / "support" / "mounted"
TASK = "depot/weigh-one"
ATTEMPTS = (
    *("hidden", "Hidden", " hidden", "hidden ", "scales.hidden", "scales/hidden", "scales:hidden"),
    *("scales__hidden", "__reserved__init", "__reserved__geteffects", "__reserved__teardown"),
    *("__reserved__server_tool", "__RESERVED__GETEFFECTS", "scales.__reserved__geteffects"),
    *("__reserved__geteffects\x00", "_\u200b_reserved__geteffects", "tools/call", "../hidden"),
    *("", "weigh\n__reserved__geteffects"),
)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A state folder that the accounts of servers can reach."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[EnvServer]:
    with running_env_server(
        DOMAINS, folder, call_deadline_seconds=2, ready_low=1, ready_high=2, server_starts=4
    ) as server:
        yield server


@pytest.fixture
async def client(server: EnvServer) -> AsyncIterator[EnvClient]:
    async with server.client() as client:
        yield client
        for episode_id in client.opened:
            await client.close(episode_id)


async def show(client: EnvClient, episode, what: str):
    return json.loads((await client.call(episode, "show", what=what)).content)


async def test_tools_of_servers_and_of_the_world_stand_side_by_side(client: EnvClient):
    one, other = await asyncio.gather(client.open(TASK), client.open(TASK))
    assert [tool.name for tool in one.task.tools] == [
        *("label", "weigh", "tare", "show", "misbehave", "now")
    ]
    assert json.loads((await client.call(one, "tare", grams=30)).content) == {"tare": 30}
    weighed = [await client.call(episode, "weigh", parcel_id="P-1") for episode in (one, other)]
    assert [json.loads(seen.content)["grams"] for seen in weighed] == [370, 400]
    refused = await client.call(one, "weigh", parcel_id="P-9")
    assert refused.is_error and refused.content == "There is no such parcel."
    labelled = await client.call(one, "label", parcel_id="P-1", weight=370)
    assert json.loads(labelled.content) == {"labelled": 1}
    now = json.loads((await client.call(one, "now")).content)
    assert now["now"] == "2026-03-02T09:00:00+00:00"
    for bad in ("[1]", "{"):
        assert (await client.call_raw(one, "tare", bad)).is_error


async def test_no_name_reaches_a_hidden_or_reserved_tool(client: EnvClient):
    assert len(ATTEMPTS) == 20
    episode = await client.open(TASK)
    async with httpx2.AsyncClient(
        headers={"Authorization": f"Bearer {episode.agent_token}"}, timeout=20
    ) as web:
        transport = streamable_http_client(episode.mcp_url, http_client=web)
        async with Client(transport, mode="legacy") as agent:
            listed = await agent.list_tools()
            assert not {tool.name for tool in listed.tools} & set(ATTEMPTS)
            for name in ATTEMPTS:
                by_rpc = await client.call(episode, name, config={}, tool_name="hidden")
                by_mcp = await agent.session.call_tool(name, {"server_name": "scales"})
                for is_error, text in (
                    (by_rpc.is_error, by_rpc.content),
                    (by_mcp.is_error, by_mcp.model_dump()["content"][0]["text"]),
                ):
                    assert is_error and text.startswith("There is no tool named"), name


async def test_what_servers_tell_at_the_seal_is_evidence(folder: Path, client: EnvClient):
    idle, busy = await client.open(TASK), await client.open(TASK)
    assert idle.initial_state_hash == busy.initial_state_hash
    await client.call(busy, "tare", grams=5)
    for episode in (idle, busy):
        await client.seal(episode)
    rows, hashes = [], []
    for episode in (idle, busy):
        header, changes, tables = await client.evidence(episode, "server_effects")
        told = [change.table for change in changes]
        assert told == ([] if episode is idle else ["server_effects"])
        assert header.initial_state_hash == episode.initial_state_hash
        rows += tables["server_effects"]
        hashes.append(header.final_state_hash)
    assert rows == [
        {"server": "scales", "effects": {"tare": 0, "writes": 0}},
        {"server": "scales", "effects": {"tare": 5, "writes": 1}},
    ]
    assert hashes[0] == idle.initial_state_hash != hashes[1]
    assert not pids_of_servers(folder)


async def test_a_process_sees_its_limits_and_nothing_of_ours(server: EnvServer, client: EnvClient):
    episode = await client.open(TASK)
    limits = await show(client, episode, "limits")
    assert limits == {"DATA": 256 << 20, "NOFILE": 64, "FSIZE": 1 << 20, "CORE": 0}
    environment = await show(client, episode, "environment")
    assert environment["SCALES_UNIT"] == "grams"
    assert not [name for name in environment if name.startswith(("ENV_SERVER", "PG"))]
    assert server.infra_token not in environment.values()
    pid, group, session = await show(client, episode, "process")
    assert session not in (os.getsid(0), os.getsid(server.process.pid))
    assert group != os.getpgid(server.process.pid) and pid != server.process.pid
    user, its_group, groups = await show(client, episode, "account")
    if os.geteuid() == 0:
        assert user == its_group in range(60706, 61184) and set(groups) <= {user}
        other = await client.open(TASK)
        assert (await show(client, other, "account"))[0] != user


@pytest.mark.parametrize("how", ["kill", "exit", "hang", "eat", "shout"])
async def test_a_server_that_ends_or_hangs_ends_its_episode_and_no_other(
    server: EnvServer, client: EnvClient, how: str
):
    broken, sound = await asyncio.gather(client.open(TASK), client.open(TASK))
    if how == "kill":
        pid, *_ = await show(client, broken, "process")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not runs(pid), "the kill")
    with pytest.raises(ForeignServerError) as told:
        await client.call(broken, "misbehave", how=how)
    assert "999" not in str(told.value)
    with pytest.raises(ForeignServerError):
        await client.call(broken, "label", parcel_id="P-1", weight=1)
    if how == "shout":
        wait_until(lambda: "the golden weight is 999" in server.log(), "the last words")
    assert not (await client.call(sound, "weigh", parcel_id="P-1")).is_error
    await client.seal(sound)


async def test_babble_is_passed_over_and_a_huge_answer_is_refused(client: EnvClient):
    episode = await client.open(TASK)
    assert not (await client.call(episode, "misbehave", how="babble")).is_error
    refused = await client.call(episode, "misbehave", how="long")
    assert refused.is_error and "larger than 1 MiB" in refused.content
    assert not (await client.call(episode, "weigh", parcel_id="P-1")).is_error


async def test_a_server_without_state_is_started_again_once_between_calls(client: EnvClient):
    episode = await client.open(TASK)
    pids = []
    for _ in range(2):
        pids.append(json.loads((await client.call(episode, "now")).content)["pid"])
        os.kill(pids[-1], signal.SIGKILL)
        wait_until(lambda: not runs(pids[-1]), "the kill")
    assert pids[0] != pids[1]
    with pytest.raises(ForeignServerError):
        await client.call(episode, "now")


async def test_nothing_of_a_server_outlives_its_episode(folder: Path, client: EnvClient):
    wait_until(lambda: not pids_of_servers(folder), "the end of those of earlier tests")
    episode = await client.open(TASK)
    assert not (await client.call(episode, "misbehave", how="daemon")).is_error
    environment = await show(client, episode, "environment")
    assert Path(environment["HOME"]).is_dir() and len(pids_of_servers(folder)) == 3
    await client.close(episode)
    wait_until(lambda: not pids_of_servers(folder), "the end of all")
    wait_until(lambda: not Path(environment["HOME"]).exists(), "an empty room")


async def test_the_next_start_ends_what_a_killed_env_server_left():
    with tempfile.TemporaryDirectory() as name:
        own = Path(name)
        with running_env_server(DOMAINS, own, ready_low=1, ready_high=1) as first:
            async with first.client() as client:
                episode = await client.open(TASK)
                await client.call(episode, "misbehave", how="daemon")
                first.process.kill()
                first.process.wait()
        assert pids_of_servers(own)
        with running_env_server(DOMAINS, own, ready_low=1, ready_high=1):
            assert not pids_of_servers(own)
            assert len(list((own / "state").glob("servers-*"))) == 1


def pids_of_servers(folder: Path) -> list[int]:
    """Processes of mounted servers, and what these started, of env-servers whose folder this is."""
    mark = f"ENVFARM_MOUNT={folder}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            has_mark = mark in (process / "environ").read_bytes()
        except OSError:
            continue
        if has_mark:
            found.append(int(process.name))
    return found


def runs(pid: int) -> bool:
    """False for a zombie, too."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
