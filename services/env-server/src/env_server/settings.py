"""Settings of the env-server, from variables ENV_SERVER_*; the only place that reads them."""

import math
import os
from pathlib import Path
from typing import Literal, Self

from envfarm_common.settings import ServiceSettings
from envfarm_common.worker_metrics import FOLDER, READY
from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

_OF_WORKER = (
    *("workers", "worker", "crew_dir", "ready_file", "http_port", "grpc_port"),
    *("max_episodes", "keepers", "ready_low", "ready_high", "server_starts"),
)


class Settings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="ENV_SERVER_")

    domains_dir: Path
    """Folder of domains; only <domain>/world/ is read."""
    infra_token: SecretStr = Field(min_length=16)
    """Opens the lifecycle."""
    grader_token: SecretStr = Field(min_length=16)
    """Opens the evidence of sealed episodes."""
    state_dir: Path
    """Where the embedded Postgres keeps its files when memory has no room."""
    memory_dir: Path | None = Path("/dev/shm")
    """Memory-backed folder that is preferred while it has 2 GiB free; empty turns this off."""
    backend: Literal["embedded", "server", "container"] = "embedded"
    dsn: SecretStr | None = None
    """Superuser DSN of the Postgres that backend `server` uses."""
    container_image: str = "postgres:18.6"
    """Image of the Postgres that backend `container` starts."""
    container_data: str = Field("4g", pattern=r"^[0-9]+[kmg]$")
    """Size of that Postgres's memory-backed storage."""
    docker_host: str = Field("", pattern=r"^(unix://.+)?$")
    """Socket of a Docker engine on this machine; empty takes the usual one."""
    wheels: bool = True
    """Whether backend `embedded` may take its binaries from a wheel."""
    postgres_user: str = "nobody"
    """Account that the embedded Postgres runs under when we are root."""
    redis_url: SecretStr | None = None
    """Where this env-server registers itself while it takes episodes, for gateways whose env-servers
    are `redis`; none registers nowhere."""
    grpc_port: int = 0
    advertise_host: str = ""
    """Host in the addresses that are handed out; empty takes `host`, or this machine's address where
    that is a wildcard."""
    drain_seconds: float = Field(0.0, ge=0)
    """After a SIGTERM, longest wait for open episodes to end by themselves."""
    ready_low: int = Field(2, ge=0)
    """Below this many ready slots of a world the pool is filled again..."""
    ready_high: int = Field(4, ge=1)
    """... up to this many."""
    max_episodes: int = Field(64, ge=1)
    keepers: int = Field(32, ge=2)
    """Connections that stay open into slots for evidence and undo; each episode beyond them pays a
    connect when it is sealed."""
    max_changed_units: int = Field(50_000, ge=100)
    """Most row changes of one episode, in units of a row of up to 8 KiB; then writes are refused."""
    lease_seconds: float = Field(60.0, gt=0)
    """Lease of an open that does not ask for one."""
    max_lease_seconds: float = Field(3600.0, gt=0)
    call_deadline_seconds: float = Field(10.0, gt=0)
    """Longest tool call; then it is cancelled and rolled back."""

    workers: int = Field(1, ge=1, le=64)
    """Processes that share one Postgres and these limits; worker n has its own episodes and listens on
    both ports plus n. More than one where one core is not enough."""
    worker: int = Field(0, ge=0)
    """Which of several workers this is; set by their parent."""
    crew_dir: Path | None = None
    """Folder that several workers share; set by their parent."""

    server_accounts: str = Field("60706-61183", pattern=r"^(\d+-\d+)?$")
    """As root: numbers of accounts, one for each running server of a world; nobody else may use them,
    since whatever runs under one is ended. Those from 61184 on are systemd's for services. Empty runs
    servers as root."""
    server_starts: int = Field(2, ge=1)
    """Servers of worlds that start at a time."""

    @field_validator("memory_dir", mode="before")
    @classmethod
    def _none_when_empty(cls, value: object) -> object:
        return None if value == "" else value

    @property
    def is_worker(self) -> bool:
        """Whether we are one of several workers, and our parent keeps our ports."""
        return self.crew_dir is not None

    def account_numbers(self) -> range | None:
        """Accounts for servers; None where they run under our own."""
        if os.geteuid() != 0 or not self.server_accounts:
            return None
        first, last = map(int, self.server_accounts.split("-"))
        return range(first, last + 1)

    def of_worker(self, number: int, folder: Path, *, http_port: int, grpc_port: int) -> Self:
        """The settings of one of our workers, with its part of the limits."""

        def part(total: int) -> int:
            base, rest = divmod(total, self.workers)
            return base + (number < rest)

        high = math.ceil(self.ready_high / self.workers)
        return self.model_copy(
            update={
                "workers": 1,
                "worker": number,
                "crew_dir": folder,
                "ready_file": folder / f"{READY}{number}",
                "http_port": http_port,
                "grpc_port": grpc_port,
                "max_episodes": part(self.max_episodes),
                "keepers": max(2, part(self.keepers)),
                "ready_low": min(high, math.ceil(self.ready_low / self.workers)),
                "ready_high": high,
                "server_starts": max(1, part(self.server_starts)),
            }
        )

    def worker_environment(self) -> dict[str, str]:
        """Our own environment with what `of_worker` has changed, for the worker's process."""
        assert self.crew_dir
        changed = {f"ENV_SERVER_{name.upper()}": str(getattr(self, name)) for name in _OF_WORKER}
        return {**os.environ, **changed, "PROMETHEUS_MULTIPROC_DIR": str(self.crew_dir / FOLDER)}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.backend == "server" and self.dsn is None:
            raise ValueError("backend server needs ENV_SERVER_DSN")
        if self.ready_low > self.ready_high:
            raise ValueError("ready_low is above ready_high")
        if self.infra_token == self.grader_token:
            raise ValueError("infra_token and grader_token must differ")
        if self.max_episodes < self.workers:
            raise ValueError("max_episodes is below workers")
        if self.http_port and self.grpc_port:
            if abs(self.http_port - self.grpc_port) < self.workers:
                raise ValueError("http_port and grpc_port, each plus workers, overlap")
        return self
