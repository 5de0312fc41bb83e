"""What an episode owns besides its database: a folder, and the MCP servers that its world mounts."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from envfarm.errors import NoCapacity

from env_server.admission import RETRY_HINT_SECONDS
from env_server.episode_files import EpisodeFiles, FileRoom
from env_server.mounted_servers import MountedServers
from env_server.server_room import ServerRoom
from env_server.slot import Slot
from env_server.world import Task


@dataclass(slots=True)
class Belongings:
    """None where the world has no such thing."""

    files: EpisodeFiles | None = None
    servers: MountedServers | None = None

    async def release(self) -> None:
        """Servers first, as they could still write; a second time is fine."""
        if self.servers:
            await self.servers.close()
        if self.files:
            await asyncio.to_thread(self.files.remove)


@dataclass(frozen=True, slots=True)
class Outfitter:
    """The rooms that belongings come from; one is None where no world needs it."""

    file_room: FileRoom | None = None
    server_room: ServerRoom | None = None

    async def outfit(
        self, episode_id: str, task: Task, slot: Slot, lost: Callable[[str], None]
    ) -> Belongings:
        """What the task's world gives an episode; on any error nothing of it stays. `lost` is told when a
        server has ended. NoCapacity when there is no room; ForeignServerError or BrokenWorld."""
        found, world = Belongings(), task.world
        try:
            if self.file_room and world.file_limits:
                found.files = await asyncio.to_thread(
                    self.file_room.open, episode_id, world.file_limits, world.seed_files
                )
            if self.server_room and world.servers:
                found.servers = await MountedServers.start(task, self.server_room, slot.dsn, lost)
        except OSError as error:
            await found.release()
            raise NoCapacity(
                f"no room for files: {error.strerror}", retry_after_seconds=RETRY_HINT_SECONDS
            ) from error
        except BaseException:
            await found.release()
            raise
        return found
