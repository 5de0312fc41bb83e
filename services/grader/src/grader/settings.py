"""Settings of the grading process (`python -m grader`) and of ingest (`python -m grader.ingest`)."""

import os
from pathlib import Path
from typing import Annotated, Self

from envfarm_common.settings import ServiceSettings
from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

_ADDRESS_RULE = r"^(\*\.)?[A-Za-z0-9._-]+(:[0-9]{1,5})?$|^\[[0-9a-fA-F:]+\](:[0-9]{1,5})?$"
_ALLOWED_RULE = _ADDRESS_RULE + r"|^dns:[A-Za-z0-9._-]+(:[0-9]{1,5})?$"


class JudgeSettings(ServiceSettings):
    """Who answers `rubric` checks."""

    model_config = SettingsConfigDict(env_prefix="GRADER_", frozen=True, extra="ignore")

    judge_url: str = Field(default="", pattern=r"^(https?://[^\s]+)?$")
    """OpenAI-compatible endpoint for `rubric` checks, up to /v1; empty where no task has any."""
    judge_model: str = Field(default="", max_length=200)
    """Model to ask, as the endpoint names it."""
    judge_api_key: SecretStr = SecretStr("")
    """Bearer token of the endpoint; empty sends none."""
    judge_timeout_seconds: float = Field(default=30.0, gt=0, le=600)
    """Deadline of one question."""
    judge_cache_dir: Path | None = None
    """Folder that keeps answers over restarts; without one they are kept in memory."""

    @model_validator(mode="after")
    def _judge_is_whole(self) -> Self:
        if bool(self.judge_url) != bool(self.judge_model):
            raise ValueError("judge_url and judge_model belong together")
        return self


class EvidenceSettings(JudgeSettings):
    """What reading evidence takes; shared by serving and ingest."""

    domains_dir: Path
    """Folder that holds `<domain>/private/*.yaml`."""
    golden_dir: Path
    """Folder of golden snapshots; ingest writes it, serving only reads it."""
    evidence_token: SecretStr = Field(min_length=16)
    """The env-servers' grader token."""
    evidence_timeout_seconds: float = Field(default=15.0, gt=0, le=300)
    """Deadline of one call to an env-server."""


class Settings(EvidenceSettings):
    """Of the serving process."""

    client_token: SecretStr = Field(min_length=16)
    """The operator's token: it opens the whole API."""
    env_servers: Annotated[list[Annotated[str, Field(pattern=_ALLOWED_RULE)]], NoDecode] = Field(
        min_length=1
    )
    """Allowed env-servers, comma-separated: `host` (any port), `host:port`, `*.domain[:port]`, or
    `dns:name[:port]`, all addresses of a name."""
    grpc_port: int = Field(default=0, ge=0, le=65535)
    """Port of the gRPC door; 0 lets the system choose."""
    workers: int = Field(default=1, ge=1, le=64)
    """Processes behind the two ports; more than one where one core is not enough."""
    state_dir: Path | None = None
    """Folder of verdicts, evidence and claims, shared by all workers. Without one they are kept in
    a temporary folder, and end with the process."""
    keep_evidence: bool = True
    """Whether evidence is kept, so that its verdicts can be reached again."""
    keep_days: float = Field(default=30.0, gt=0)
    """Verdicts and evidence not used for this long are removed."""
    keep_bytes: int = Field(default=10 * 1024**3, gt=0)
    """Beyond this size on disk the oldest are removed."""
    tokens_file: Path | None = None
    """Further bearer tokens, with scopes and tasks; see tokens.py."""
    dsn_targets_file: Path | None = None
    """Databases that may be read by `dsn`; none without it. See dsn_targets.py."""
    database_timeout_seconds: float = Field(default=30.0, gt=0, le=600)
    """Deadline of reading a database by `dsn`."""
    max_body_bytes: int = Field(default=64 * 1024**2, ge=1024)
    """Larger requests are refused."""
    replay_capacity: int = Field(default=1_000, ge=1)
    """Answers kept in memory; older ones are read from `state_dir`."""
    claim_seconds: float = Field(default=60.0, gt=0)
    """How long a repeated request waits for another worker that is grading it."""

    @field_validator("env_servers", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return value

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.client_token == self.evidence_token:
            raise ValueError("client_token and evidence_token must differ")
        return self


def count_in_files(folder: Path) -> None:
    """Let the metrics of this process be counted in `folder`, where all workers count.

    To be called before any instrument is made; prometheus_client takes the folder from here only.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)


class IngestSettings(EvidenceSettings):
    """Of the ingest job."""

    evidence_timeout_seconds: float = Field(default=90.0, gt=0, le=300)
    """Deadline of one call to an env-server: nobody waits for the answer, and the machine may be busy."""
    infra_token: SecretStr = Field(min_length=16)
    """The env-server's infrastructure token: ingest opens episodes, the serving process never does."""
    env_server: str = Field(pattern=_ADDRESS_RULE)
    """host:port of the gRPC door of the env-server to prove on."""
