"""Names on the Redis side, in one place: streams, consumer groups, keys, fields.

One stream entry per scored group: a reference, a checksum and a summary. The group's bytes lie
behind the GroupStore. Writer: rollout-gateway; reader: learner. Env-servers may announce themselves.
"""

PAYLOAD_VERSION = 1
"""Version of the entry's fields and of the Group message; a reader refuses any other."""

CONSUMER_GROUP = "learner"

ENV_SERVERS = "envfarm:env-servers"
"""Sorted set: host:port of an env-server's gRPC door → Redis's clock, in seconds, at its last
heartbeat. Writers: env-servers; readers: gateways."""
ENV_SERVER_SECONDS = 10
"""Without a heartbeat for longer, an env-server gets no new episodes."""

FIELD_VERSION = "v"
FIELD_GROUP_ID = "group_id"
FIELD_TASK_ID = "task_id"
FIELD_STORE_KEY = "store_key"
FIELD_SHA256 = "sha256"
FIELD_BYTES = "bytes"
FIELD_POLICY_NUMBER = "policy_number"
FIELD_POLICY_HASH = "policy_hash"
FIELD_REWARDS = "rewards"
"""Comma-separated rewards in slot order, for people who look at the stream."""

ENTRY_FIELDS = (
    FIELD_VERSION,
    FIELD_GROUP_ID,
    FIELD_TASK_ID,
    FIELD_STORE_KEY,
    FIELD_SHA256,
    FIELD_BYTES,
    FIELD_POLICY_NUMBER,
    FIELD_POLICY_HASH,
    FIELD_REWARDS,
)


def group_stream(run_id: str) -> str:
    return f"envfarm:{run_id}:groups"


def group_key(run_id: str, group_id: str) -> str:
    """Key of a group's bytes in the `redis` GroupStore."""
    return f"envfarm:{run_id}:group:{group_id}"


def published_ids(run_id: str) -> str:
    """Hash: group id → stream entry id. The gateway's memory of what it published."""
    return f"envfarm:{run_id}:published"


def trained_ids(run_id: str) -> str:
    """Set of group ids whose optimizer step is in a durable checkpoint; the learner's, for audits."""
    return f"envfarm:{run_id}:trained"


def dropped_ids(run_id: str) -> str:
    """Hash: group id → why the learner could not use it. The gateway replaces such groups."""
    return f"envfarm:{run_id}:dropped"


def learner_lease(run_id: str) -> str:
    """String with the fencing epoch's holder; expires."""
    return f"envfarm:{run_id}:learner"


def learner_epoch(run_id: str) -> str:
    """Counter: raised by each learner that takes the lease."""
    return f"envfarm:{run_id}:learner-epoch"


def dead_letters(run_id: str) -> str:
    """Stream of entries that could not be read, with the reason."""
    return f"envfarm:{run_id}:dead"
