"""Conventions of settings: one class per service, frozen, read once, printed without secrets."""

from pathlib import Path
from typing import Any, TypeVar

from envfarm.errors import ConfigError
from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

SECRETS = Path("/run/secrets")


class ServiceSettings(BaseSettings):
    """From variables, else files of that name in small letters in SECRETS; see `env_prefix`."""

    model_config = SettingsConfigDict(
        frozen=True, extra="ignore", secrets_dir=SECRETS if SECRETS.is_dir() else None
    )

    host: str = "127.0.0.1"
    """Address to listen on."""
    http_port: int = 0
    """Port of health, metrics and the service's HTTP API; 0 lets the system choose."""
    log_level: str = "info"
    otlp_endpoint: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s/]+(/[^\s]*)?$",
        validation_alias=AliasChoices("OTEL_EXPORTER_OTLP_ENDPOINT", "otlp_endpoint"),
    )
    """Base URL of a collector of traces, OTLP over HTTP; without it there are none."""
    ready_file: Path | None = None
    """Written as JSON {"pid", "http", "grpc"} once the service serves; removed at exit."""


S = TypeVar("S", bound=ServiceSettings)


def load(cls: type[S]) -> S:
    """Read the environment; ConfigError names each variable that is missing or wrong."""
    try:
        return cls()
    except ValidationError as error:
        prefix = cls.model_config.get("env_prefix", "")
        lines = [
            f"{prefix}{'__'.join(map(str, item['loc']))}".upper() + f": {item['msg']}"
            for item in error.errors()
        ]
        raise ConfigError(
            "settings: " + "; ".join(lines), hint="set these variables, or files in /run/secrets"
        ) from error


def redacted(settings: ServiceSettings) -> dict[str, Any]:
    """Settings as plain values, secrets replaced by '***'."""
    return {n: "***" if isinstance(v, SecretStr) else str(v) for n, v in settings if v is not None}
