"""Ask the servers of a world which tools they offer, outside any episode, to pin them."""

from collections.abc import Mapping
from contextlib import AsyncExitStack

from env_server.backend import Backend
from env_server.cluster import Cluster
from env_server.mounted_servers import list_tools
from env_server.server_file import PinnedTool
from env_server.server_room import ServerRoom
from env_server.world import World

CONNECTIONS = 48
KEEPERS = 2
MAX_CHANGED_UNITS = 50_000


async def ask(world: World, room: ServerRoom, backend: Backend) -> Mapping[str, list[PinnedTool]]:
    """Tools by server. `backend` is started only where a server wants a database, and then it gets
    one of the world. ForeignServerError or BrokenWorld says which server does not tell."""
    if not world.dsn_connections:
        return await list_tools(world, room, "")
    async with AsyncExitStack() as down:
        conninfo = await backend.start()
        down.push_async_callback(backend.stop)
        cluster = await Cluster.connect(conninfo, CONNECTIONS, KEEPERS)
        down.push_async_callback(cluster.close)
        template = await cluster.build_template(world, MAX_CHANGED_UNITS)
        slot = await cluster.clone(template)
        down.push_async_callback(cluster.drop, slot)
        return await list_tools(world, room, slot.dsn)
