"""What the learner takes from its environment: the gateway's token and the launcher's world size."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from envfarm.errors import ConfigError

TOKEN_VARIABLE = "LEARNER_GATEWAY_TOKEN"
REDIS_VARIABLE = "LEARNER_REDIS_URL_FILE"


def gateway_token(token_file: Path | None) -> str:
    """The token of the gateway's infrastructure door: the file's first line, else the variable.

    Raises ConfigError when neither gives one.
    """
    if token_file is not None:
        try:
            token = token_file.read_text().strip()
        except OSError as error:
            raise ConfigError(f"gateway.token_file: cannot read {token_file}: {error}") from error
    else:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        raise ConfigError(
            "no token for the gateway",
            hint=f"set {TOKEN_VARIABLE}, or gateway.token_file in the configuration",
        )
    return token


def redis_url(configured: str) -> str:
    """The first line of the file that LEARNER_REDIS_URL_FILE names, as a URL holds a password; else
    what is configured. Raises ConfigError when the file cannot be read."""
    file = os.environ.get(REDIS_VARIABLE)
    if not file:
        return configured
    try:
        return Path(file).read_text().strip()
    except OSError as error:
        raise ConfigError(f"{REDIS_VARIABLE}: cannot read {file}: {error.strerror}") from error


def otlp_endpoint() -> str | None:
    """Base URL of a collector of traces; None when there is none."""
    return os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None


@dataclass(frozen=True, slots=True)
class Launched:
    """Which of how many ranks a launcher made this process."""

    rank: int
    ranks: int


def launched() -> Launched | None:
    """What torchrun or DeepSpeed's launcher said; None when nothing launched us."""
    if "WORLD_SIZE" not in os.environ:
        return None
    try:
        return Launched(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    except (KeyError, ValueError) as error:
        raise ConfigError(
            "WORLD_SIZE is set, but RANK or WORLD_SIZE is no number",
            hint="start more than one rank with torchrun or deepspeed, one without a launcher",
        ) from error


def declare_local_rank() -> None:
    """Tell DeepSpeed which of this machine's processes we are: it asks the environment, as a
    launcher would have set it."""
    os.environ.setdefault("LOCAL_RANK", "0")


def environment_of_a_child() -> dict[str, str]:
    """Ours, without what makes a process a rank."""
    ranks = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {name: value for name, value in os.environ.items() if name not in ranks}


def find_built_ops() -> None:
    """Point torch at the C++ ops that set-up built into this virtual environment, and at ninja,
    which it asks before it loads one; whoever set TORCH_EXTENSIONS_DIR is left alone."""
    built = Path(sys.prefix) / "torch_extensions"
    if built.is_dir() and "TORCH_EXTENSIONS_DIR" not in os.environ:
        os.environ["TORCH_EXTENSIONS_DIR"] = str(built)
        os.environ["PATH"] = (
            f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        )
