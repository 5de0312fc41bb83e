"""Settings of the rollout-gateway, from variables GATEWAY_*; the only place that reads them."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from envfarm_common.settings import ServiceSettings
from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from rollout_gateway.chat_endpoint import OWN_KEYS, LimitField

HttpUrl = Annotated[str, Field(pattern=r"^https?://[^\s/]+(/[^\s]*)?$")]
EnvServerPlace = Annotated[
    str, Field(pattern=r"^redis$|^(dns:)?[^\s/:]+:[0-9]{1,5}$|^\[[0-9a-fA-F:]+\]:[0-9]{1,5}$")
]
GrpcAddress = Annotated[str, Field(pattern=r"^[^\s/:]+:[0-9]{1,5}$|^\[[0-9a-fA-F:]+\]:[0-9]{1,5}$")]


class Settings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="GATEWAY_", frozen=True, extra="ignore")

    infra_token: SecretStr = Field(min_length=16)
    """Opens this process's own gRPC door and its /v1 routes."""
    env_token: SecretStr = Field(min_length=16)
    """The env-servers' infrastructure token."""
    grader_token: SecretStr = Field(min_length=16)
    """The grader's client token."""
    env_servers: Annotated[list[EnvServerPlace], NoDecode] = Field(min_length=1)
    """gRPC doors, comma-separated host:port; dns:host:port is all addresses of a name, and redis all
    env-servers that have registered there."""
    grader: GrpcAddress
    """The grader's gRPC door, host:port."""
    engines: Annotated[list[HttpUrl], NoDecode]
    """vLLM servers, comma-separated URLs, reachable by the gateway only; may be empty where there is a
    chat endpoint."""
    redis_url: SecretStr
    domains_dir: Path
    """Folder of domains; only <domain>/user/ is read."""
    tokenizer_dir: Path
    """Folder with the policy's tokenizer.json."""
    state_dir: Path
    """Jobs, recorded rollouts and the version in service; survives restarts."""
    grpc_port: int = 0

    chat_format: Literal["compact", "qwen3", "qwen3_xml"] = "compact"
    """How tools are shown and calls are written; see rollout_gateway/chat/formats.py."""
    reasoning: Literal["keep", "strip"] = "keep"
    """Whether the policy reads its earlier reasoning once the user has spoken again. A learner needs
    one unbroken sequence: with strip, jobs of kind train are refused."""
    model_name: str = "policy"
    """Name under which the engines serve the model (--served-model-name)."""
    temperature: float = Field(1.0, gt=0)
    top_k: int = Field(20, ge=0)
    """0 takes all tokens."""
    top_p: float = Field(0.95, gt=0, le=1)

    users: Literal["script", "model", "none"] = "script"
    """Who plays the simulated users: their scripts, a model that knows their context, or nobody."""
    user_url: HttpUrl | None = None
    """OpenAI-compatible endpoint of the users' model, such as http://host:8000/v1."""
    user_model: str = ""
    """Its model."""
    user_key: SecretStr = SecretStr("")
    user_temperature: float = Field(0.7, ge=0)
    user_seconds: float = Field(60.0, gt=0)
    """Longest wait for one answer of the users' model."""

    chat_url: HttpUrl | None = None
    """OpenAI-compatible endpoint, such as https://host/v1, whose model jobs of interface chat ask."""
    chat_model: str = ""
    chat_key: SecretStr = SecretStr("")
    chat_parameters: dict[str, Any] = Field(
        default_factory=lambda: {"temperature": 1.0, "top_p": 0.95}
    )
    """JSON object that goes into every request, such as {"reasoning_effort": "low"}."""
    chat_limit_field: LimitField = "max_tokens"
    """How the endpoint calls the limit of one answer; some take max_completion_tokens only."""
    chat_seconds: float = Field(300.0, gt=0)
    """Longest wait for one answer of the chat endpoint."""

    concurrency: int = Field(32, ge=1)
    """Attempts that run at once, at most; fewer while the engines queue or their caches are full."""
    least_concurrency: int = Field(8, ge=1)
    """Attempts that run at once however full the engines are."""
    attempt_seconds: float = Field(1800.0, gt=0)
    """Wall-clock limit of one attempt; past it the attempt has no reward and runs again."""
    generate_seconds: float = Field(600.0, gt=0)
    """Longest wait for one generation, and for an engine to drain."""
    call_seconds: float = Field(30.0, gt=0)
    """Longest wait for one answer of an env-server."""
    grade_seconds: float = Field(60.0, gt=0)
    """Longest wait for a verdict, repeats included."""
    lease_seconds: float = Field(60.0, ge=3)
    """Lease of each episode; renewed three times within it."""
    slot_mode: Literal["fresh", "reuse"] = "fresh"
    attempts_per_slot: int = Field(4, ge=1)
    """Attempts of one sample before its group is cancelled."""
    max_version_spread: int = Field(1, ge=0)
    """Largest difference of policy version numbers within a group."""
    oversampling: float = Field(2.0, ge=1)
    """Of a stream: most groups in flight, as a multiple of those owed; 1 starts none on suspicion."""
    park_after: int = Field(3, ge=1)
    """Of a stream: groups with equal rewards in a row before a task is parked."""
    park_updates: int = Field(5, ge=1)
    """Updates that a task is parked for, twice as long each time."""
    task_replacements: int = Field(2, ge=1)
    """Groups of one task replaced within one update before others are tried."""
    update_mode: Literal["wait", "keep"] = "wait"
    """At an update: let running generations end, or freeze them and go on under new weights."""

    store: Literal["redis", "dir"] = "redis"
    """Where the bytes of groups lie."""
    store_dir: Path | None = None
    """Folder that gateway and learner share, when store is dir."""
    require_aof: bool = True
    """Refuse a Redis that cannot confirm that a write is on disk."""
    undelivered_groups: int = Field(36, ge=1)
    """Start no group while this many are published or running and not delivered."""
    undelivered_bytes: int = Field(1 << 30, ge=1)
    """Start no group while the undelivered ones weigh this much."""

    @field_validator("env_servers", "engines", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return [part.strip().rstrip("/") for part in value.split(",") if part.strip()]
        return value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.store == "dir") != (self.store_dir is not None):
            raise ValueError('store "dir" needs GATEWAY_STORE_DIR, and "redis" takes none')
        if not self.engines and not self.chat_url:
            raise ValueError("GATEWAY_ENGINES names no engine, and there is no GATEWAY_CHAT_URL")
        if self.chat_url and not self.chat_model:
            raise ValueError("GATEWAY_CHAT_URL needs GATEWAY_CHAT_MODEL")
        taken = sorted((OWN_KEYS | {self.chat_limit_field}) & self.chat_parameters.keys())
        if taken:
            raise ValueError(f"GATEWAY_CHAT_PARAMETERS cannot set {', '.join(taken)}")
        if self.users == "model" and not (self.user_url and self.user_model):
            raise ValueError('users "model" needs GATEWAY_USER_URL and GATEWAY_USER_MODEL')
        return self
