"""What the learner takes from its environment: the gateway's token and the launcher's world size."""

import os
import sys
from pathlib import Path

from envfarm.errors import ConfigError

TOKEN_VARIABLE = "LEARNER_GATEWAY_TOKEN"


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


def require_single_process() -> None:
    """Raise ConfigError under a launcher that starts more than one rank: that is not proved yet."""
    world = os.environ.get("WORLD_SIZE", "1")
    if world != "1":
        raise ConfigError(
            f"WORLD_SIZE is {world}: this learner runs as one process",
            hint="start it as `python -m learner train`, without a launcher",
        )


def declare_local_rank() -> None:
    """Tell DeepSpeed which of this machine's processes we are: it asks the environment, as a
    launcher would have set it."""
    os.environ.setdefault("LOCAL_RANK", "0")


def find_built_ops() -> None:
    """Point torch at the C++ ops that set-up built into this virtual environment, and at ninja,
    which it asks before it loads one; whoever set TORCH_EXTENSIONS_DIR is left alone."""
    built = Path(sys.prefix) / "torch_extensions"
    if built.is_dir() and "TORCH_EXTENSIONS_DIR" not in os.environ:
        os.environ["TORCH_EXTENSIONS_DIR"] = str(built)
        os.environ["PATH"] = (
            f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        )
