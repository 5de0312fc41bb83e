"""Ids: what they look like and who makes them.

episode   ep-<22 url-safe chars>            env-server; names, does not authorise
job       as the caller chose               gateway
group     <job>.<task index>.<group index>  gateway; deterministic, so a restarted job makes the same ids
rollout   <group>.s<slot>.a<attempt>        gateway
"""

import secrets
from typing import NewType

EpisodeId = NewType("EpisodeId", str)
JobId = NewType("JobId", str)
GroupId = NewType("GroupId", str)
RolloutId = NewType("RolloutId", str)


def new_episode_id() -> EpisodeId:
    return EpisodeId("ep-" + secrets.token_urlsafe(16))


def new_token() -> str:
    """A bearer token of 256 random bits."""
    return secrets.token_urlsafe(32)


def group_id(job: str, task_index: int, group_index: int) -> GroupId:
    return GroupId(f"{job}.{task_index}.{group_index}")


def rollout_id(group: str, slot: int, attempt: int) -> RolloutId:
    return RolloutId(f"{group}.s{slot}.a{attempt}")
