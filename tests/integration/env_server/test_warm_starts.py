"""Servers forked from a warm parent: each session is as much on its own as one that was started, and
what cannot be forked is started."""

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from envfarm.errors import ForeignServerError

from env_server.server_file import ServerFile
from env_server.server_link import ServerLink
from env_server.server_place import Place
from env_server.server_process import ServerProcess
from env_server.server_room import ServerRoom
from env_server.warm_parent import ForkedChild
from env_server.world import World
from tests.support.hosted_worlds import DESK
from tests.support.polling import wait_until

IS_ROOT = os.geteuid() == 0
ACCOUNTS = range(60706, 61184) if IS_ROOT else None
PLAIN_LOOP = """
import sys
sys.path.insert(0, {desk!r})
import json, ticket_desk
{extra}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        found = ticket_desk.answer(message["method"], message.get("params") or {{}})
        told = {{"error": {{"code": -32601, "message": "no"}}}} if found is None else {{"result": found}}
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], **told}}), flush=True)
"""
THREADED = """
import asyncio, threading, time
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
asyncio.run(ticket_desk.main())
"""


@dataclass
class Session:
    link: ServerLink
    place: Place
    is_forked: bool

    async def ask(self, tool: str, **arguments):
        return json.loads((await self.link.call(tool, arguments))[0])

    async def end(self) -> None:
        await self.link.close()
        await asyncio.to_thread(self.place.release)


class Desk:
    """A world with one server, and a room for its sessions."""

    def __init__(self, folder: Path, **spec):
        self.room = ServerRoom(folder / "state", ACCOUNTS, 2)
        self.folder = folder / "world"
        (self.folder / "servers").mkdir(parents=True, exist_ok=True)
        now = datetime(2025, 10, 1, 13, tzinfo=UTC)
        self.world = World("desk", "0", now, "", "", self.folder, {})
        given = {
            "command": ["/usr/bin/python3", "-m", "ticket_desk"],
            "variables": {"PYTHONPATH": str(DESK / "servers"), "DESK": "one"},
            "start": "forked",
            "clock": "frozen",
            "limits": {"memory_mb": 256, "open_files": 64, "cpu_seconds": 30},
        }
        self.spec = ServerFile.model_validate(given | spec)

    async def open(self) -> Session:
        place = self.room.place()
        process = await ServerProcess.start(
            "desk", self.spec, self.world, place, {"OWN": place.folder.name}, self.room.warm
        )
        link = ServerLink("desk", self.spec, process)
        await link.open()
        return Session(link, place, isinstance(process._process, ForkedChild))


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the accounts of servers can reach."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
async def desk(folder: Path) -> AsyncIterator[Desk]:
    made = Desk(folder)
    try:
        yield made
    finally:
        made.room.close()
        assert not runs_of(made.room)


def runs_of(room: ServerRoom) -> list[int]:
    """Processes of this room's servers and parents."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(room.folder).encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def status_of(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split(":")[1].strip() for line in lines if line.startswith(f"{name}:"))


async def test_a_forked_session_is_on_its_own(desk: Desk):
    one, other = await asyncio.gather(desk.open(), desk.open())
    if not one.is_forked:
        pytest.skip("this kernel gives no user namespace")
    told = [await session.ask("about_process") for session in (one, other)]
    parent = told[0]["parent"]
    for session, about in zip((one, other), told, strict=True):
        assert about["group"] == about["pid"] and about["parent"] == parent
        environment = about["environment"]
        assert environment["HOME"] == environment["ENVFARM_MOUNT"] == str(session.place.folder)
        assert environment["OWN"] == session.place.folder.name and environment["DESK"] == "one"
        # stdin, stdout, stderr, the loop's own three, and the folder that is being listed.
        assert about["files"] == ["0", "1", "2", "3", "4", "5", "6"]
        limits = Path(f"/proc/{about['pid']}/limits").read_text()
        assert "Max data size             268435456            268435456" in limits
        assert "Max open files            64                   64" in limits
        assert "Max cpu time              30                   30" in limits
        for kind in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
            assert int(status_of(about["pid"], kind), 16) == 0
        assert status_of(about["pid"], "NoNewPrivs") == "1"
        seen = Path(f"/proc/{about['pid']}/environ").read_bytes()
        assert f"ENVFARM_MOUNT={session.place.folder}\0".encode() in seen
        if IS_ROOT:
            assert about["account"] == [*(session.place.ids or ()), []]
    if IS_ROOT:
        accounts = {about["account"][0] for about in told} | {
            int(status_of(parent, "Uid").split()[0])
        }
        assert len(accounts) == 3 and 0 not in accounts
        # Three rights and no way to any account but those of the range.
        assert int(status_of(parent, "CapEff"), 16) == int(status_of(parent, "CapBnd"), 16) == 0xE0
        assert Path(f"/proc/{parent}/uid_map").read_text().split() == ["60706", "60706", "478"]
    assert (await one.ask("__reserved__init", config={}))["tickets"] == 1
    await one.ask("open_ticket", about="badge")
    assert (await other.ask("__reserved__init", config={}))["tickets"] == 1
    assert len(await one.ask("list_tickets")) == 2 and len(await other.ask("list_tickets")) == 1
    assert (await one.ask("today"))["date"] == "2025-10-01"
    await asyncio.gather(one.end(), other.end())
    assert not Path(f"/proc/{told[0]['pid']}").exists()


async def test_a_session_that_ends_tells_how_and_ends_alone(desk: Desk):
    sessions = await asyncio.gather(*(desk.open() for _ in range(3)))
    if not sessions[0].is_forked:
        pytest.skip("this kernel gives no user namespace")
    for session, how in zip(sessions, ("kill", "exit"), strict=False):
        with pytest.raises(ForeignServerError):
            await session.link.call("misbehave", {"how": how})
    assert await sessions[2].ask("about_process")
    assert not sessions[2].link.ended.done()
    for session in sessions:
        await session.end()
    again = await desk.open()
    assert again.is_forked
    await again.end()


async def test_a_parent_that_dies_takes_its_sessions_and_is_replaced_a_few_times(desk: Desk):
    kinds = []
    for _ in range(4):
        session = await desk.open()
        kinds.append(session.is_forked)
        if not session.is_forked:
            await session.end()
            break
        about = await session.ask("about_process")
        os.kill(about["parent"], signal.SIGKILL)
        await asyncio.wait_for(session.link.ended, 20)
        wait_until(lambda pid=about["pid"]: not runs(pid), "the end of the session")
        await session.end()
    if not kinds[0]:
        pytest.skip("this kernel gives no user namespace")
    assert kinds == [True, True, True, False]


@pytest.mark.parametrize("extra", ["", THREADED])
async def test_what_cannot_be_forked_is_started(folder: Path, extra: str):
    script = folder / "world" / "servers" / "loop.py"
    script.parent.mkdir(parents=True)
    script.write_text(PLAIN_LOOP.format(desk=str(DESK / "servers"), extra=extra))
    made = Desk(folder, command=["/usr/bin/python3", "loop.py"])
    try:
        session = await made.open()
        assert not session.is_forked
        assert (await session.ask("today"))["date"] == "2025-10-01"
        await session.end()
        assert not runs_of(made.room)
    finally:
        made.room.close()


def runs(pid: int) -> bool:
    """False for a zombie, too."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
