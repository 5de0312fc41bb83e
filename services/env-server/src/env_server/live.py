"""An episode while it lives: its state, slot, lease, calls and, once sealed, its evidence."""

import asyncio
from dataclasses import dataclass, field

from envfarm.errors import (
    DatabaseError,
    EvidenceError,
    ForeignServerError,
    InvalidArgument,
    LeaseExpired,
    WrongState,
)

from env_server import episode_files
from env_server.episode import End, Episode
from env_server.episode_files import EpisodeFiles, joined
from env_server.evidence import Evidence, TableRows
from env_server.mounted_servers import EFFECTS, MountedServers
from env_server.slot import Slot
from env_server.tool_call import Observation
from env_server.world import Task


@dataclass(slots=True, kw_only=True)
class LiveEpisode:
    episode: Episode
    task: Task
    slot: Slot
    may_reuse: bool
    """Whether a slot that other episodes had was allowed; else this one was untouched."""
    request_id: str
    """Of the open."""
    token: str
    client: str
    lease_seconds: float
    expires_at: float
    """On the event loop's clock."""
    one_call: asyncio.Lock = field(default_factory=asyncio.Lock)
    calls: "dict[str, tuple[str, asyncio.Task[Observation]]]" = field(default_factory=dict)
    """Request id → what was asked, and its one execution."""
    unnamed: "set[asyncio.Task[Observation]]" = field(default_factory=set)
    """Calls without a request id: those of the agent's door."""
    waiting: int = 0
    tool_calls: int = 0
    tool_seconds: float = 0.0
    files: EpisodeFiles | None = None
    """There where the world gives its episodes a folder."""
    servers: MountedServers | None = None
    """There where the world mounts MCP servers."""
    sealing: "asyncio.Task[Evidence] | None" = None
    evidence: Evidence | None = None

    @property
    def episode_id(self) -> str:
        return self.episode.episode_id

    @property
    def initial_state_hash(self) -> str:
        """Of everything that will be evidence, as the episode began."""
        told = self.servers.initial_effects if self.servers else None
        return self.slot.template.hash_with(told)

    async def with_the_rest(self, found: Evidence) -> Evidence:
        """The evidence of the database with that of files and servers, where there are any;
        EvidenceError when the files are not what the calls wrote."""
        start = self.initial_state_hash
        initial = self.task.world.initial_files
        if self.files and initial:
            final = await asyncio.to_thread(self.files.collect)
            found = joined(found, start, initial, final)
        if self.servers and self.servers.initial_effects and self.servers.effects:
            found = joined(found, start, self.servers.initial_effects, self.servers.effects)
        return found

    async def rows_apart(self, name: str) -> TableRows | None:
        """The rows of a table of the evidence that is none of the database's."""
        if self.files and name == episode_files.TABLE.name:
            return await asyncio.to_thread(self.files.collect)
        if self.servers and name == EFFECTS.name:
            return self.servers.effects
        return None

    def running(self) -> "list[asyncio.Task[Observation] | asyncio.Task[Evidence]]":
        """Calls and seal that have not ended."""
        work = [*(task for _, task in self.calls.values()), *self.unnamed]
        seal = [self.sealing] if self.sealing else []
        return [task for task in [*work, *seal] if not task.done()]

    def recall(self, request_id: str, asked: str) -> "asyncio.Task[Observation] | None":
        """The execution under this id; InvalidArgument when it was another call."""
        known = self.calls.get(request_id)
        if known is None:
            return None
        if known[0] != asked:
            raise InvalidArgument(f"request id {request_id!r} was used for another call")
        return known[1]


def gone(
    episode: Episode,
) -> LeaseExpired | DatabaseError | EvidenceError | ForeignServerError | WrongState:
    """The error that any call on an episode that is over answers."""
    text = f"episode {episode.episode_id} is over: {episode.reason}"
    if episode.end is End.LEASE_EXPIRED:
        return LeaseExpired(text, hint="renew leases well within lease_seconds")
    if episode.end is End.DATABASE:
        return DatabaseError(text)
    if episode.end is End.SERVER:
        return ForeignServerError(text)
    if episode.end is End.EVIDENCE:
        return EvidenceError(text)
    return WrongState(text)
