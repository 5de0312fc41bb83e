"""Writes a random token per door into the folders of those who may know it; keeps what is there.

    /secrets/<service>/<variable in small letters>

Each folder is a volume that only its service mounts, so a service reads no other's tokens.
"""

import secrets
import sys
from pathlib import Path

FOLDERS = Path("/secrets")
SHARED = {
    "env_infra": (
        "env-server/env_server_infra_token",
        "gateway/gateway_env_token",
        "proofs/grader_infra_token",
    ),
    "env_grader": (
        "env-server/env_server_grader_token",
        "grader/grader_evidence_token",
        "proofs/grader_evidence_token",
    ),
    "grader_client": ("grader/grader_client_token", "gateway/gateway_grader_token"),
    "gateway_infra": ("gateway/gateway_infra_token", "learner/learner_gateway_token"),
    "redis": ("gateway/gateway_redis_url", "learner/learner_redis_url", "redis/redis.conf"),
    "grafana": ("grafana/grafana_password",),
    "postgres": ("postgres/postgres_password", "env-server/env_server_dsn"),
}
FORMS = {
    "redis.conf": "requirepass {}\n",
    "gateway_redis_url": "redis://:{}@redis:6379/0",
    "learner_redis_url": "redis://:{}@redis:6379/0",
    "env_server_dsn": "postgresql://postgres:{}@postgres:5432/postgres",
}


def make(folders: Path) -> int:
    """Make each secret of which a file is missing, in all its files; how many were made."""
    made = 0
    for names in SHARED.values():
        files = [folders / name for name in names]
        if all(file.exists() for file in files):
            continue
        token = secrets.token_urlsafe(32)
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
            file.write_text(FORMS.get(file.name, "{}").format(token))
            # Readers run under accounts of their own; who mounts the folder is what keeps it.
            file.chmod(0o444)
        made += 1
    return made


if __name__ == "__main__":
    print(f"secrets: {make(Path(sys.argv[1]) if sys.argv[1:] else FOLDERS)} made")
