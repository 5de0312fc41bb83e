"""Settings of the grading process (`python -m grader`) and of ingest (`python -m grader.ingest`)."""

from pathlib import Path
from typing import Annotated, Self

from envfarm_common.settings import ServiceSettings
from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

_ADDRESS_RULE = r"^(\*\.)?[A-Za-z0-9._-]+(:[0-9]{1,5})?$|^\[[0-9a-fA-F:]+\](:[0-9]{1,5})?$"


class EvidenceSettings(ServiceSettings):
    """What reading evidence takes; shared by serving and ingest."""

    model_config = SettingsConfigDict(env_prefix="GRADER_", frozen=True, extra="ignore")

    domains_dir: Path
    """Folder that holds `<domain>/private/*.yaml`."""
    golden_dir: Path
    """Folder of golden snapshots; ingest writes it, serving only reads it."""
    evidence_token: SecretStr = Field(min_length=16)
    """The env-servers' grader token."""
    evidence_timeout_seconds: float = Field(default=15.0, gt=0, le=300)
    """Deadline of one call to an env-server."""
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


class Settings(EvidenceSettings):
    """Of the serving process."""

    client_token: SecretStr = Field(min_length=16)
    """Who may call POST /v1/grade."""
    env_servers: Annotated[list[Annotated[str, Field(pattern=_ADDRESS_RULE)]], NoDecode] = Field(
        min_length=1
    )
    """Allowed env-servers, comma-separated: `host` (any port), `host:port` or `*.domain[:port]`."""
    replay_capacity: int = Field(default=10_000, ge=1)
    """Verdicts kept in memory, so that a repeated request_id gets the same answer."""

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


class IngestSettings(EvidenceSettings):
    """Of the ingest job."""

    infra_token: SecretStr = Field(min_length=16)
    """The env-server's infrastructure token: ingest opens episodes, the serving process never does."""
    env_server: str = Field(pattern=_ADDRESS_RULE)
    """host:port of the gRPC door of the env-server to prove on."""
