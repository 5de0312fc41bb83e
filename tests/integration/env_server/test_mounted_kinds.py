"""Kinds of mounted servers: one with a connection to the episode's database, one behind an address, and
one that is not what it was pinned as."""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from envfarm.errors import BrokenWorld, ForeignServerError

from tests.support.env_server import running_env_server
from tests.support.polling import wait_until

SUPPORT = Path(__file__).parents[2] / "support"
REMOTE = """
    import sys
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("remote")

    @server.tool()
    def echo(text: str) -> str:
        '''Say it again.'''
        return text

    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def settings(**more):
    # Interpreters of virtual environments often lie where no other account can reach them.
    return {
        "ready_low": 1,
        "ready_high": 1,
        "call_deadline_seconds": 20,
        "server_accounts": "",
    } | more


async def test_what_a_server_writes_by_its_dsn_is_evidence_and_stops_at_the_seal(folder: Path):
    with running_env_server(SUPPORT / "mounted_database", folder, **settings()) as server:
        async with server.client() as client:
            episode = await client.open("ledger/book")
            assert [tool.name for tool in episode.task.tools] == ["book"]
            booked = await client.call(episode, "book", entry_id=2, amount=20, note="tea")
            assert json.loads(booked.content) == {"booked": 2}
            twice = await client.call(episode, "book", entry_id=2, amount=20, note="tea")
            assert twice.is_error and "book" in twice.content
            bad = await client.call(episode, "book", entry_id="x")
            assert bad.is_error
            await client.seal(episode)
            header, changes, _ = await client.evidence(episode)
            assert header.final_state_hash != header.initial_state_hash
            assert [json.loads(change.after_json)["note"] for change in changes] == ["tea"]
            assert await client.query(episode, "SELECT count(*) AS n FROM entries") == [{"n": 2}]
            await client.close(episode)


async def test_a_server_under_an_account_of_its_own_reaches_the_database(folder: Path):
    domains, tool = folder / "domains", {"name": "knock", "input_schema": {}}
    text = "command: [/usr/bin/env, python3, knock.py]\n    dsn_variable: LEDGER_DSN"
    told = "Ask Postgres whether it encrypts."
    add_world(domains, "knock", text, [{**tool, "description": told}])
    with running_env_server(domains, folder, ready_low=0, ready_high=1) as server:
        async with server.client() as client:
            episode = await client.open("knock/weigh-one")
            assert (await client.call(episode, "knock")).content in ("N", "S")


def add_world(domains: Path, name: str, server: str, tools: list[dict]) -> None:
    """A world `name` with one server, other, and the task NAME/weigh-one."""
    world = domains / name / "world"
    shutil.copytree(SUPPORT / "mounted" / "depot" / "world", world)
    head = (world / "world.yaml").read_text().partition("servers:")[0]
    text = head.replace("world: depot", f"world: {name}")
    (world / "world.yaml").write_text(f"{text}servers:\n  other:\n    {server}\n")
    (world / "servers.json").write_text(json.dumps({"servers": {"other": tools}}))
    task = world / "tasks" / "weigh-one.yaml"
    task.write_text(task.read_text().replace("depot/", f"{name}/"))


async def test_a_server_behind_an_address_is_mounted_and_missed(folder: Path):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    schema = {
        "type": "object",
        "properties": {"text": {"title": "Text", "type": "string"}},
        "required": ["text"],
        "title": "echoArguments",
    }
    tool = {"name": "echo", "description": "Say it again.", "input_schema": schema}
    domains = folder / "domains"
    add_world(domains, "far", f"url: http://127.0.0.1:{port}/mcp", [tool])
    code = textwrap.dedent(REMOTE)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(port)], stderr=subprocess.DEVNULL
    ) as remote:
        try:
            wait_until(lambda: is_open(port), "the remote server", 60)
            with running_env_server(domains, folder, **settings()) as server:
                async with server.client() as client:
                    episode = await client.open("far/weigh-one")
                    said = await client.call(episode, "echo", text="tea")
                    assert (said.content, said.is_error) == ("tea", False)
                    remote.kill()
                    await asyncio.to_thread(remote.wait)
                    with pytest.raises(ForeignServerError):
                        await client.call(episode, "echo", text="tea")
                    with pytest.raises(ForeignServerError):
                        await client.open("far/weigh-one")
        finally:
            remote.kill()


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


BAD = {
    "changed": ("command: [/usr/bin/env, python3, clock.py]", "is not as it was pinned"),
    "gone": ("command: [/usr/bin/env, python3, scales.py]", "tool now is gone"),
    "missing": ("command: [./none]", "there is no program './none'"),
    "ends": ("command: [/bin/sh, -c, exit 7]", "server other"),
    "silent": ("command: [/bin/sleep, '60']\n    start_seconds: 0.5", "not ready within 0.5 s"),
}


async def test_a_server_that_is_not_what_it_should_be_opens_no_episode(folder: Path):
    tool = {"name": "now", "description": "Tell another time.", "input_schema": {}}
    domains = folder / "domains"
    for name, (text, _) in BAD.items():
        add_world(domains, name, text, [tool])
    with running_env_server(domains, folder, **settings(ready_low=0)) as server:
        async with server.client() as client:
            for name, (_, told) in BAD.items():
                is_world = name in ("changed", "gone")
                with pytest.raises(BrokenWorld if is_world else ForeignServerError, match=told):
                    await client.open(f"{name}/weigh-one")
            assert (await client.capacity()).live_episodes == 0
