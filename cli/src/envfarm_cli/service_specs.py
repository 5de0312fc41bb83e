"""How each process of a stack is started: its command line and its whole environment."""

import json
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, get_args

from envfarm_cli import settings
from envfarm_cli.failure import BadInput
from envfarm_cli.launching import HERE, Launch
from envfarm_cli.state_dir import StateDir

Engine = Literal["vllm", "scripted", "scripted-vllm", "none"]
"""vllm samples; scripted answers from the domains' golden actions with made-up logprobs;
scripted-vllm answers the same and lets a vLLM behind it score every token; none leaves only the chat
endpoint of GATEWAY_CHAT_URL."""

THREADS_BESIDE_ANOTHER = str(max(1, (os.cpu_count() or 1) - 1))
"""Of engine and learners: threads that share a core make all others wait in every operation (30 steps
on two loaded cores: 91 s with one thread, 264 s with two)."""

PORTS = (
    "valkey",
    "engine",
    "policy.http",
    "env-server.http",
    "env-server.grpc",
    "grader.http",
    "grader.grpc",
    "gateway.http",
    "gateway.grpc",
    "learner.http",
)
MODEL_NAME = "policy"
MAX_MODEL_LEN = 8192


@dataclass(frozen=True, kw_only=True, slots=True)
class StackOptions:
    """What the user chose for one stack."""

    domains: Path
    engine: Engine = "vllm"
    model: Path | None = None
    """None makes and keeps the tiny model."""
    ports: dict[str, int] = field(default_factory=dict)
    """Fixed ports by name; the others are free ones."""
    learner_config: Path | None = None
    """Also run the learner with this configuration."""
    gateway_state: Path | None = None
    """The gateway's memory and records; None takes the state folder's."""
    env_settings: dict[str, str] = field(default_factory=dict)
    """Further variables of the env-server."""
    gateway_settings: dict[str, str] = field(default_factory=dict)
    """Further GATEWAY_* variables, such as the sampling of a recipe."""
    max_model_len: int = MAX_MODEL_LEN
    """Longest sequence that the engine takes, in tokens."""

    def __post_init__(self) -> None:
        if self.engine not in get_args(Engine):
            raise BadInput(
                f"--engine {self.engine}: there is no such engine",
                hint=f"choose one of {', '.join(get_args(Engine))}",
            )

    def port(self, name: str) -> int:
        return self.ports.get(name, 0)

    @property
    def has_vllm(self) -> bool:
        return self.engine in ("vllm", "scripted-vllm")

    @property
    def has_script(self) -> bool:
        return self.engine in ("scripted", "scripted-vllm")

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Self:
        value = json.loads(text)
        for name in ("domains", "model", "learner_config", "gateway_state"):
            value[name] = Path(value[name]) if value[name] else None
        return cls(**value)


@dataclass(frozen=True, slots=True)
class Spec:
    """One process."""

    name: str
    argv: list[str | Path]
    env: dict[str, str]


def parse_ports(given: list[str]) -> dict[str, int]:
    """`gateway.http=7001` pairs; BadInput for anything else."""
    ports: dict[str, int] = {}
    for text in given:
        name, _, number = text.partition("=")
        if name not in PORTS or not number.isdecimal() or not 0 < int(number) < 65536:
            raise BadInput(
                f"--port {text}: write it as NAME=NUMBER",
                hint=f"names are {', '.join(PORTS)}",
            )
        ports[name] = int(number)
    return ports


def base_env(state: StateDir) -> dict[str, str]:
    """What every Python child gets."""
    own_programs, traces = Path(sys.executable).parent, settings.trace_endpoint()
    return {
        "PATH": f"{own_programs}:{settings.search_path()}",
        "HOME": settings.home() or str(state.path),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        **({"OTEL_EXPORTER_OTLP_ENDPOINT": traces} if traces else {}),
    }


def env_server(state: StateDir, options: StackOptions) -> Spec:
    keys = state.secrets()
    return _service(
        state,
        "env-server",
        "env_server",
        **options.env_settings,
        ENV_SERVER_DOMAINS_DIR=options.domains,
        ENV_SERVER_STATE_DIR=state.path / "env-server",
        ENV_SERVER_INFRA_TOKEN=keys["env_infra"],
        ENV_SERVER_GRADER_TOKEN=keys["env_grader"],
        ENV_SERVER_HTTP_PORT=options.port("env-server.http"),
        ENV_SERVER_GRPC_PORT=options.port("env-server.grpc"),
        ENV_SERVER_READY_FILE=state.ready("env-server"),
    )


def grader(state: StateDir, options: StackOptions) -> Spec:
    keys = state.secrets()
    return _service(
        state,
        "grader",
        "grader",
        GRADER_DOMAINS_DIR=options.domains,
        GRADER_GOLDEN_DIR=state.path / "golden",
        GRADER_STATE_DIR=state.path / "grader",
        GRADER_EVIDENCE_TOKEN=keys["env_grader"],
        GRADER_CLIENT_TOKEN=keys["grader_client"],
        GRADER_ENV_SERVERS="127.0.0.1",
        GRADER_HTTP_PORT=options.port("grader.http"),
        GRADER_GRPC_PORT=options.port("grader.grpc"),
        GRADER_READY_FILE=state.ready("grader"),
        **settings.judge(),
    )


def ingest(state: StateDir, domains: Path, env_server: str, domain: str, tasks: list[str]) -> Spec:
    """Proves tasks on a running env-server."""
    keys = state.secrets()
    chosen = ["--domain", domain] if domain else []
    for task in tasks:
        chosen += ["--task", task]
    return Spec(
        "proofs",
        [sys.executable, "-m", "grader.ingest", "--json", *chosen],
        base_env(state)
        | {
            "GRADER_DOMAINS_DIR": str(domains),
            "GRADER_GOLDEN_DIR": str(state.path / "golden"),
            "GRADER_EVIDENCE_TOKEN": keys["env_grader"],
            "GRADER_INFRA_TOKEN": keys["env_infra"],
            "GRADER_ENV_SERVER": env_server,
        }
        | settings.judge(),
    )


def vllm(state: StateDir, model: Path, port: int, max_model_len: int = MAX_MODEL_LEN) -> Spec:
    """A vLLM that reloads weights in place; it listens on this machine only."""
    cache = state.path / "engine"
    cache.mkdir(parents=True, exist_ok=True)
    program = Path(sys.executable).with_name("vllm")
    flags = {
        "--host": "127.0.0.1",
        "--port": port,
        "--served-model-name": MODEL_NAME,
        "--dtype": "float32",
        "--max-model-len": max_model_len,
        "--generation-config": "vllm",
        # By its path, since the word "uni" means "mp" on CPUs: there two processes spin while they
        # wait for each other and leave no core to anybody else (profile: half of all samples).
        "--distributed-executor-backend": "vllm.v1.executor.uniproc_executor.UniProcExecutor",
    }
    words = [str(word) for pair in flags.items() for word in pair]
    traced_words, traced_env = traced_vllm(settings.trace_endpoint())
    return Spec(
        "engine",
        [program, "serve", model, *words, "--enforce-eager", "--enable-scale-out", *traced_words],
        base_env(state)
        | traced_env
        | {
            "VLLM_CACHE_ROOT": str(cache),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_SERVER_DEV_MODE": "1",
            "OMP_NUM_THREADS": THREADS_BESIDE_ANOTHER,
        },
    )


def traced_vllm(endpoint: str) -> tuple[list[str], dict[str, str]]:
    """Words and variables with which a vLLM continues the traces that requests bring, and begins
    none; nothing without an endpoint."""
    if not endpoint:
        return [], {}
    return ["--otlp-traces-endpoint", f"{endpoint.rstrip('/')}/v1/traces"], {
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_SERVICE_NAME": "envfarm-engine",
        "OTEL_TRACES_SAMPLER": "parentbased_always_off",
        "OTEL_BSP_SCHEDULE_DELAY": "1000",
    }


def scripted_policy(state: StateDir, script: Path, model: Path, engine_url: str, port: int) -> Spec:
    argv: list[str | Path] = [sys.executable, "-m", "envfarm_cli.scripted_policy"]
    argv += ["--script", script, "--tokenizer", model / "tokenizer.json"]
    argv += ["--ready-file", state.ready("policy"), "--port", str(port)]
    if engine_url:
        argv += ["--engine", engine_url]
    return Spec("policy", argv, base_env(state))


def gateway(
    state: StateDir,
    options: StackOptions,
    *,
    model: Path,
    engine: str,
    env_server: str,
    grader: str,
    redis_url: str,
    records: Path,
) -> Spec:
    keys = state.secrets()
    return _service(
        state,
        "gateway",
        "rollout_gateway",
        **options.gateway_settings,
        GATEWAY_INFRA_TOKEN=keys["gateway_infra"],
        GATEWAY_ENV_TOKEN=keys["env_infra"],
        GATEWAY_GRADER_TOKEN=keys["grader_client"],
        GATEWAY_ENV_SERVERS=env_server,
        GATEWAY_GRADER=grader,
        GATEWAY_ENGINES=engine,
        GATEWAY_REDIS_URL=redis_url,
        GATEWAY_DOMAINS_DIR=options.domains,
        GATEWAY_TOKENIZER_DIR=model,
        GATEWAY_STATE_DIR=records,
        GATEWAY_MODEL_NAME=MODEL_NAME,
        GATEWAY_HTTP_PORT=options.port("gateway.http"),
        GATEWAY_GRPC_PORT=options.port("gateway.grpc"),
        GATEWAY_READY_FILE=state.ready("gateway"),
        **settings.chat(),
    )


def learner(state: StateDir, config: Path, launch: Launch = HERE) -> Spec:
    return Spec(
        "learner",
        launch.argv(config),
        base_env(state)
        | (settings.slurm() if launch.kind == "slurm" else {})
        | {
            "LEARNER_GATEWAY_TOKEN": state.secrets()["gateway_infra"],
            "OMP_NUM_THREADS": THREADS_BESIDE_ANOTHER,
        },
    )


def sft(state: StateDir, config: Path, settings: Sequence[str]) -> Spec:
    """Supervised training; it needs no service."""
    argv: list[str | Path] = [sys.executable, "-m", "learner.sft", config]
    for text in settings:
        argv += ["--set", text]
    return Spec("sft", argv, base_env(state) | {"OMP_NUM_THREADS": THREADS_BESIDE_ANOTHER})


def free_port() -> int:
    """A port that was free a moment ago, for programs that cannot choose one themselves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def refuse_taken(port: int, who: str) -> None:
    """BadInput when somebody listens on `port` already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise BadInput(
                f"{who} cannot listen on 127.0.0.1:{port}: {error.strerror}",
                hint="choose another port with --port, or stop the process that holds it",
            ) from error


def _service(state: StateDir, name: str, module: str, **variables: Any) -> Spec:
    env = {key: str(value) for key, value in variables.items()}
    return Spec(name, [sys.executable, "-m", module], base_env(state) | env)
