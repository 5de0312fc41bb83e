"""The env-servers that have told Redis lately that they take episodes."""

from envfarm.streams import ENV_SERVER_SECONDS, ENV_SERVERS
from redis.asyncio import Redis
from redis.exceptions import RedisError


async def registered(client: Redis) -> list[str]:
    """Their addresses in order; OSError when Redis does not answer."""
    try:
        seconds, _ = await client.time()
        found = await client.zrangebyscore(ENV_SERVERS, seconds - ENV_SERVER_SECONDS, "+inf")
    except RedisError as error:
        raise ConnectionError(f"redis: {error}") from error
    return sorted(item.decode() if isinstance(item, bytes) else str(item) for item in found)
