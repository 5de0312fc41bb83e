"""Whether a world keeps its promises: `check` builds it twice and looks for what differs.

schema       builds; primary keys, hashable types, no trigger before the journal's
rows         two builds start from the same state
clock        no real clock, no dice in its SQL and its tools
reading      READ tools answer by content, not by the physical order of rows (the shuffle test)
determinism  the same calls on two builds, and on rows in another order, give byte for byte the
             same answers and the same end
servers      tools of mounted servers are left out; a note
reuse        whether used slots may be undone and handed out again; a note, not a promise
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from envfarm.canonical import canonical_json
from envfarm.errors import BrokenWorld, DatabaseError, DeadlineError

from env_server import shuffle, tool_call
from env_server.backend import Backend
from env_server.cluster import Cluster
from env_server.episode_files import EpisodeFiles, FileRoom
from env_server.slot import Slot
from env_server.template import Template
from env_server.world import World

Call = tuple[str, Mapping[str, Any]]
"""Tool and arguments."""
CONNECTIONS = 24
KEEPERS = 8
MAX_CHANGED_UNITS = 50_000
CALL_SECONDS = 10.0
GUESSES = 5
"""Calls of each tool beyond the given ones."""
_CLOCKS = re.compile(
    r"(?<!world\.)\bnow\s*\(\)|\b(clock|statement|transaction)_timestamp\s*\(|\bcurrent_(date|time"
    r"|timestamp)\b|\blocaltime(stamp)?\b|\brandom\s*\(|\bgen_random_uuid\s*\(|\buuidv[47]\s*\("
    r"|\bdatetime\.(now|utcnow|today)\b|\bdate\.today\b|\btime\.(time|monotonic)\b|\buuid\.?uuid[147]\b"
    r"|\b(import|from)\s+(random|secrets|time)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Found:
    """What one check says; a note is neither kept nor broken."""

    check: str
    outcome: Literal["ok", "fails", "note"]
    told: str


@dataclass(frozen=True, slots=True)
class _Copy:
    """One database that the calls run on."""

    what: str
    cluster: Cluster
    slot: Slot
    files: EpisodeFiles | None


async def check(
    backend: Backend, world: World, runs: Mapping[str, Sequence[Call]], folder: Path
) -> list[Found]:
    """Every promise in order; later ones are left out when the world cannot be built.

    `runs` are sequences of calls by name that are played one after another, besides guessed ones;
    `folder` takes the files of worlds that have them.
    """
    conninfo = await backend.start()
    try:
        async with AsyncExitStack() as down:
            builds: list[tuple[Cluster, Template]] = []
            for _ in range(2):
                cluster = await Cluster.connect(conninfo, CONNECTIONS, KEEPERS)
                down.push_async_callback(cluster.close)
                try:
                    template = await cluster.build_template(world, MAX_CHANGED_UNITS)
                except BrokenWorld as error:
                    return [Found("schema", "fails", error.message)]
                builds.append((cluster, template))
            room = FileRoom(folder) if world.file_limits else None
            if room:
                down.callback(room.close)
            return await _promises(builds, world, runs, room)
    finally:
        await backend.stop()


async def _promises(
    builds: Sequence[tuple[Cluster, Template]],
    world: World,
    runs: Mapping[str, Sequence[Call]],
    room: FileRoom | None,
) -> list[Found]:
    (cluster, template), (_, again) = builds
    rows = sum(len(found.canonical) for found in template.initial.tables.values())
    found = [Found("schema", "ok", f"{len(template.tables)} tables, {len(world.tools)} tools")]
    unlike = [
        name
        for name, held in template.initial.tables.items()
        if held.hash != again.initial.tables[name].hash
    ]
    found.append(
        Found("rows", "fails", f"differ in every build: {', '.join(unlike)}")
        if unlike
        else Found("rows", "ok", f"{rows} rows, equal in two builds")
    )
    clocks = clocks_in(world)
    found.append(
        Found("clock", "fails", "; ".join(clocks))
        if clocks
        else Found("clock", "ok", f"stands still at {world.now.isoformat()}")
    )
    obstacle = "" if template.reuse_obstacle else await shuffle.obstacle(cluster, template)
    found.append(
        Found("reading", "fails", obstacle)
        if obstacle
        else Found("reading", "note", f"not tried: {template.reuse_obstacle}")
        if template.reuse_obstacle
        else Found("reading", "ok", "READ tools answer the same on rows in another order")
    )
    found.append(await _determinism(builds, world, runs, room))
    why = obstacle or template.reuse_obstacle
    told = f"never: {why}" if why else "slots may be undone and handed out again"
    if world.servers:
        mounted = f"{len(world.foreign)} tools of {len(world.servers)} servers are not tried here"
        found.append(Found("servers", "note", mounted))
    return [*found, Found("reuse", "note", told)]


def clocks_in(world: World) -> list[str]:
    """Places of world files that ask a real clock or throw dice; comments are left out."""
    found = []
    for name, comment in (("schema.sql", "--"), ("seed.sql", "--"), ("tools.py", "#")):
        text = (world.folder / name).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            match = _CLOCKS.search(line.partition(comment)[0])
            if match:
                found.append(f"{world.folder / name}:{number}: {match[0]!r}")
    return found


async def _determinism(
    builds: Sequence[tuple[Cluster, Template]],
    world: World,
    runs: Mapping[str, Sequence[Call]],
    room: FileRoom | None,
) -> Found:
    (first, template), (second, again) = builds
    async with AsyncExitStack() as down:
        copies = []
        for what, cluster, source in (
            ("a copy", first, template),
            ("a copy of another build", second, again),
            ("a copy with its rows in another order", first, template),
        ):
            slot = await cluster.clone(source)
            down.push_async_callback(cluster.drop, slot)
            files = None
            if room and world.file_limits:
                files = room.open(slot.name, world.file_limits, world.seed_files)
            copies.append(_Copy(what, cluster, slot, files))
        await shuffle.reorder(first, copies[2].slot)
        calls = 0
        for name, run in {**runs, "guessed calls": _guessed(template)}.items():
            for tool, arguments in run:
                if tool in world.foreign:
                    # A run that leaves out some of its calls proves nothing more.
                    break
                calls += 1
                if told := await _differs(copies, world, name, tool, arguments):
                    return Found("determinism", "fails", told)
        ends = {await _end(copy) for copy in copies}
        if len(ends) > 1:
            told = f"{calls} calls answer the same and end in {len(ends)} different states"
            return Found("determinism", "fails", told)
        return Found("determinism", "ok", f"{calls} calls, 3 copies: same answers, same end")


def _guessed(template: Template) -> list[Call]:
    """Calls of every tool with values from its schema and the rows."""
    return [
        (tool.name, arguments)
        for tool in template.world.tools.values()
        for arguments, _ in zip(shuffle.guesses(tool, template), range(GUESSES), strict=False)
    ]


async def _differs(
    copies: Sequence[_Copy], world: World, run: str, tool: str, arguments: Mapping[str, Any]
) -> str:
    """How the copies answer a call differently; empty when they agree."""
    if tool not in world.tools:
        return f"{run}: there is no tool {tool}"
    text = canonical_json(dict(arguments))
    said = []
    for copy in copies:
        try:
            seen = await tool_call.run(
                copy.slot.connection, world.tools[tool], text, world.now, CALL_SECONDS, copy.files
            )
        except (BrokenWorld, DatabaseError, DeadlineError) as error:
            return f"{run}: {tool} {text[:200]}: {error.message}"
        said.append((seen.is_error, seen.content))
    for copy, answer in zip(copies, said, strict=True):
        if answer != said[0]:
            where = _first_difference(said[0][1], answer[1])
            return f"{run}: {tool} {text[:200]} answers otherwise on {copy.what}: {where}"
    return ""


def _first_difference(one: str, other: str) -> str:
    place = next(
        (i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )
    start = max(0, place - 20)
    return f"{json.dumps(one[start : place + 40])} and {json.dumps(other[start : place + 40])}"


async def _end(copy: _Copy) -> str:
    evidence = await copy.cluster.collect(copy.slot)
    files = copy.files.collect().hash if copy.files else ""
    return f"{evidence.final_state_hash} {files}"
