"""The registry of episodes: opens, leases, calls, seals and ends; it promises

- one answer per request id: a call or an open is executed once and then replayed, never repeated;
- one call at a time per episode, in order of arrival;
- an end for each: closed by the owner, or failed when its lease or its database went.
"""

import asyncio
import contextlib
import math
import time
from collections import Counter, deque
from collections.abc import Iterable
from typing import TypeVar

import psycopg
from envfarm.errors import (
    BrokenWorld,
    DatabaseError,
    EvidenceError,
    ForeignServerError,
    InvalidArgument,
    NoCapacity,
    UnknownEpisode,
)
from envfarm.ids import new_episode_id, new_token
from envfarm_common import logging, tracing
from envfarm_common.metrics import Instruments
from psycopg import AsyncConnection

from env_server import evidence, tool_call
from env_server.admission import RETRY_HINT_SECONDS, Admission
from env_server.belongings import Belongings, Outfitter
from env_server.calls import Calls, answer
from env_server.cancel import cancel_all
from env_server.cluster import Cluster
from env_server.episode import End, Episode, State
from env_server.evidence import Evidence, TableRows
from env_server.live import LiveEpisode, gone
from env_server.slots import Slots
from env_server.world import Catalog, Task

T = TypeVar("T")
log = logging.get(__name__)

MAX_WAITING_CALLS = 16
REMEMBERED = 10_000
"""Ended episodes whose end is still told to those who ask."""
REAP_SECONDS = 0.25


class Episodes:
    """All episodes of this process. `attach` gives it a database, `detach` takes it away."""

    def __init__(
        self,
        catalog: Catalog,
        instruments: Instruments,
        *,
        max_episodes: int,
        lease_seconds: float,
        max_lease_seconds: float,
        call_deadline_seconds: float,
        outfitter: Outfitter | None = None,
    ):
        self.catalog = catalog
        self.admission = Admission(max_episodes, instruments)
        self.draining = False
        self._instruments = instruments
        self._outfitter = outfitter or Outfitter()
        self._lease_seconds = lease_seconds
        self._max_lease_seconds = max_lease_seconds
        self.calls = Calls(instruments, call_deadline_seconds, self._end)
        self._cluster: Cluster | None = None
        self._slots: Slots | None = None
        self._live: dict[str, LiveEpisode] = {}
        self._live_by_world: Counter[str] = Counter()
        self._by_token: dict[str, LiveEpisode] = {}
        self._opens: dict[str, tuple[tuple[object, ...], asyncio.Task[LiveEpisode]]] = {}
        self._over: dict[str, Episode] = {}
        self._ended: deque[tuple[str, str]] = deque()
        self._endings: set[asyncio.Task[None]] = set()
        self._reaper = asyncio.create_task(self._reap())

    def attach(self, cluster: Cluster, slots: Slots) -> None:
        self._cluster, self._slots = cluster, slots

    def detach(self, reason: str) -> None:
        """The database is gone: every live episode fails with `reason`."""
        self._cluster = self._slots = None
        for live in list(self._live.values()):
            self._end(live, End.DATABASE, reason)

    @property
    def live_count(self) -> int:
        """Those being opened included."""
        return self.admission.held

    @property
    def has_database(self) -> bool:
        """Whether episodes can still do anything."""
        return self._cluster is not None and not self._cluster.lost.is_set()

    @property
    def is_ready(self) -> bool:
        return self._slots is not None and not self.draining

    @property
    def postgres_version(self) -> str:
        return self._cluster.version if self._cluster else ""

    def ready_slots(self) -> dict[str, int]:
        return self._slots.ready() if self._slots else {}

    def reuse_obstacles(self) -> dict[str, str]:
        return self._slots.obstacles() if self._slots else {}

    async def open(
        self,
        *,
        request_id: str,
        task_id: str,
        task_hash: str,
        lease_seconds: float,
        client: str,
        may_reuse: bool = False,
    ) -> LiveEpisode:
        """A running episode; the same request id gives the same one."""
        if not request_id:
            raise InvalidArgument("request_id is empty; give each open an id of its own")
        lease = lease_seconds or self._lease_seconds
        if not (math.isfinite(lease) and 0 < lease <= self._max_lease_seconds):
            raise InvalidArgument(
                f"lease_seconds must lie between 0 and {self._max_lease_seconds:g}"
            )
        asked = (task_id, task_hash, lease, may_reuse)
        known = self._opens.get(request_id)
        if known and known[0] != asked:
            raise InvalidArgument(f"request id {request_id!r} was used for another open")
        if known is None:
            known = (
                asked,
                asyncio.create_task(
                    self._open(request_id, task_id, task_hash, lease, client, may_reuse)
                ),
            )
            self._opens[request_id] = known
            known[1].add_done_callback(lambda task: self._opened(request_id, task))
        live = await asyncio.shield(known[1])
        if live.episode.is_over:
            raise gone(live.episode)
        return live

    async def _open(
        self,
        request_id: str,
        task_id: str,
        task_hash: str,
        lease: float,
        client: str,
        may_reuse: bool,
    ) -> LiveEpisode:
        task = self.catalog.task(task_id, task_hash)
        slots = self._slots
        self.admission.admit(client, is_draining=self.draining, has_database=slots is not None)
        try:
            assert slots
            return await self._begin(slots, request_id, task, lease, client, may_reuse)
        except BaseException:
            self.admission.leave(client)
            raise

    async def _begin(
        self,
        slots: Slots,
        request_id: str,
        task: Task,
        lease: float,
        client: str,
        may_reuse: bool,
    ) -> LiveEpisode:
        episode = Episode(new_episode_id())
        begin = time.monotonic()
        with tracing.span("take slot", episode_id=episode.episode_id):
            slot, source = await slots.take(task.world.world_id, may_reuse=may_reuse)
        owned = Belongings()
        try:
            owned = await self._outfitter.outfit(
                episode.episode_id, task, slot, lambda why: self._lost(episode, why)
            )
            if self.draining or self._slots is not slots:
                raise NoCapacity(
                    "the database went away while the episode was being opened",
                    retry_after_seconds=RETRY_HINT_SECONDS,
                )
        except BaseException:
            await owned.release()
            slots.give_back(slot)
            raise
        episode.run()
        live = LiveEpisode(
            episode=episode,
            task=task,
            slot=slot,
            may_reuse=may_reuse,
            request_id=request_id,
            token=new_token(),
            client=client,
            lease_seconds=lease,
            expires_at=asyncio.get_running_loop().time() + lease,
            files=owned.files,
            servers=owned.servers,
        )
        self._live[live.episode_id] = live
        self._by_token[live.token] = live
        world = task.world.world_id
        self._instruments.count("envfarm_episodes_opened_total", world=world)
        self._instruments.observe(
            "envfarm_open_seconds", time.monotonic() - begin, world=world, source=source
        )
        self._show_live(world, 1)
        return live

    def _lost(self, episode: Episode, reason: str) -> None:
        """A server of the episode has ended while no call waited for it."""
        if live := self._live.get(episode.episode_id):
            self._end(live, End.SERVER, reason)

    def _opened(self, request_id: str, task: asyncio.Task[LiveEpisode]) -> None:
        # A refused open may be asked again under the same id.
        if task.cancelled() or task.exception():
            self._opens.pop(request_id, None)

    def find(self, episode_id: str) -> LiveEpisode:
        """The live episode; otherwise the error that says how it ended."""
        live = self._live.get(episode_id)
        if live:
            return live
        if episode_id in self._over:
            raise gone(self._over[episode_id])
        raise UnknownEpisode(f"no episode {episode_id!r} lives here")

    def find_by_token(self, token: str) -> LiveEpisode | None:
        return self._by_token.get(token)

    def renew(self, episode_ids: Iterable[str]) -> list[str]:
        """Start the leases anew; returns the ids that do not live here any more."""
        now = asyncio.get_running_loop().time()
        missing = []
        for episode_id in episode_ids:
            if live := self._live.get(episode_id):
                live.expires_at = now + live.lease_seconds
            else:
                missing.append(episode_id)
        return missing

    async def seal(self, live: LiveEpisode) -> Evidence:
        """Stop calls, let the one in flight end, fix the evidence. Twice gives the first answer."""
        if live.sealing is None:
            live.episode.seal()
            live.sealing = asyncio.create_task(self._seal(live))
        return await answer(live, live.sealing)

    async def _seal(self, live: LiveEpisode) -> Evidence:
        begin = time.monotonic()
        async with live.one_call:
            if live.episode.is_over:
                raise gone(live.episode)
            try:
                cluster = self._require_cluster(live)
                if live.servers:
                    await live.servers.finish(self.calls.deadline_seconds)
                if live.slot.dsn:
                    await cluster.silence(live.slot)
                live.evidence = await live.with_the_rest(await cluster.collect(live.slot))
            except psycopg.Error as error:
                self._end(live, End.DATABASE, f"the evidence could not be read: {error}")
                raise gone(live.episode) from error
            except (EvidenceError, ForeignServerError, BrokenWorld) as error:
                end = End.EVIDENCE if isinstance(error, EvidenceError) else End.SERVER
                self._end(live, end, error.message)
                raise
        world = live.task.world.world_id
        self._instruments.observe("envfarm_seal_seconds", time.monotonic() - begin, world=world)
        source = "journal" if live.evidence.from_journal else "whole_tables"
        self._instruments.count("envfarm_evidence_total", world=world, source=source)
        return live.evidence

    async def sealed(self, live: LiveEpisode) -> Evidence:
        """The evidence of a sealed episode; WrongState before the seal."""
        live.episode.require(State.SEALED)
        assert live.sealing
        return await answer(live, live.sealing)

    async def rows(self, live: LiveEpisode, name: str) -> TableRows:
        """All rows of a table of a sealed episode; EvidenceError when they are not those sealed."""
        found = await self.sealed(live)
        digest = next(digest for digest in found.digests if digest.table.name == name)
        try:
            rows = await live.rows_apart(name)
            if rows is None:
                base = live.slot.template.initial.tables[name]
                async with self._require_cluster(live).keepers.of(live.slot) as keeper:
                    rows = await evidence.read_rows(keeper, digest.table, base)
        except psycopg.Error as error:
            raise DatabaseError(f"episode {live.episode_id}: {error}") from error
        if rows.hash != digest.hash:
            raise EvidenceError(f"table {name} is not what it was when the episode was sealed")
        return rows

    async def grader_connection(self, live: LiveEpisode) -> AsyncConnection[object]:
        """A read-only connection to a sealed episode's database."""
        await self.sealed(live)
        try:
            return await self._require_cluster(live).connect_grader(live.slot)
        except psycopg.Error as error:
            raise DatabaseError(f"episode {live.episode_id}: {error}") from error

    def _require_cluster(self, live: LiveEpisode) -> Cluster:
        if self._cluster is None:
            raise gone(live.episode)
        return self._cluster

    async def close(self, episode_id: str) -> State:
        """End it and let go of its slot; an episode that is over keeps its end."""
        if episode_id in self._over:
            return self._over[episode_id].state
        live = self.find(episode_id)
        self._end(live, End.CLOSED, "")
        return live.episode.state

    async def drain(self) -> None:
        """Refuse new episodes and close all."""
        self.draining = True
        await cancel_all([self._reaper])
        for live in list(self._live.values()):
            self._end(live, End.CLOSED, "")
        await asyncio.gather(*self._endings)

    def _end(self, live: LiveEpisode, end: End, reason: str) -> None:
        """The one place where an episode ends."""
        if live.episode.is_over:
            return
        if end is End.CLOSED:
            live.episode.close()
        else:
            live.episode.fail(end, reason)
            log.warning("episode failed", episode_id=live.episode_id, end=end.value, reason=reason)
        del self._live[live.episode_id]
        del self._by_token[live.token]
        self.admission.leave(live.client)
        self._over[live.episode_id] = live.episode
        self._ended.append((live.episode_id, live.request_id))
        while len(self._ended) > REMEMBERED:
            episode_id, request_id = self._ended.popleft()
            del self._over[episode_id]
            self._opens.pop(request_id, None)
        ending = asyncio.create_task(self._let_go(live))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        world = live.task.world.world_id
        name = end.value if end in (End.CLOSED, End.LEASE_EXPIRED) else "failed"
        self._instruments.count("envfarm_episodes_ended_total", world=world, end=name)
        self._show_live(world, -1)

    async def _let_go(self, live: LiveEpisode) -> None:
        """Cancel what still runs in the episode, then give its slot back."""
        running = live.running()
        is_clean = live.episode.end is End.CLOSED and not running
        await cancel_all(running, seconds=2 * tool_call.END_SECONDS)
        # Whoever replays the open keeps a reference; the answers and the evidence need not stay.
        live.calls.clear()
        live.evidence = live.sealing = None
        await Belongings(live.files, live.servers).release()
        if self._slots:
            self._slots.give_back(live.slot, is_clean=is_clean)
        else:
            with contextlib.suppress(psycopg.Error):
                await live.slot.connection.close()

    def _show_live(self, world_id: str, change: int) -> None:
        self._live_by_world[world_id] += change
        self._instruments.set(
            "envfarm_episodes_live", self._live_by_world[world_id], world=world_id
        )

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(REAP_SECONDS)
            now = asyncio.get_running_loop().time()
            for live in [item for item in self._live.values() if item.expires_at <= now]:
                self._end(
                    live, End.LEASE_EXPIRED, f"nobody renewed its {live.lease_seconds:g} s lease"
                )
