"""What the command takes from its environment: almost nothing."""

import os
import re


def debug() -> bool:
    """Whether an unexpected error also prints where it happened."""
    return os.environ.get("ENVFARM_DEBUG", "") not in ("", "0")


def search_path() -> str:
    """PATH for programs that we start."""
    return os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")


def home() -> str:
    """HOME for programs that we start; compiled DeepSpeed ops lie in its cache."""
    return os.environ.get("HOME", "")


def judge() -> dict[str, str]:
    """The GRADER_JUDGE_* variables, for the grader and the proofs that we start."""
    return {name: value for name, value in os.environ.items() if name.startswith("GRADER_JUDGE_")}


def chat() -> dict[str, str]:
    """The GATEWAY_CHAT_* variables, the endpoint's key among them, for the gateway that we start."""
    return {name: value for name, value in os.environ.items() if name.startswith("GATEWAY_CHAT_")}


def trace_endpoint() -> str:
    """Where every process that we start sends its traces; empty for nowhere."""
    return os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")


def slurm() -> dict[str, str]:
    """The SLURM_* variables, for srun."""
    return {name: value for name, value in os.environ.items() if name.startswith("SLURM")}


def slurm_job() -> str | None:
    """The allocation that we run in."""
    return os.environ.get("SLURM_JOB_ID")


def slurm_head() -> str | None:
    """The first node of the allocation: `gpu[03-05,9]` begins with gpu03."""
    found = re.match(r"([^\[,]+)(?:\[([^],-]+))?", os.environ.get("SLURM_JOB_NODELIST", ""))
    return found and found[1] + (found[2] or "")
