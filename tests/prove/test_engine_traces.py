"""A real vLLM continues the trace that a request brings, and begins none."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from envfarm_cli.service_specs import traced_vllm
from tests.support.polling import wait_until
from tests.support.trace_collector import trace_collector
from tests.support.vllm_server import VllmServer

ROOT = Path(__file__).parents[2]
TRACE, PARENT = "ab" * 16, "cd" * 8
pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]


def test_a_generation_has_the_engines_span_under_its_callers(tmp_path: Path):
    argv = [sys.executable, "-m", "learner.tiny_model", "--out", tmp_path / "model", "--seed", "1"]
    argv += ["--text", ROOT / "domains/orders/world/policy.md"]
    subprocess.run(argv, check=True, capture_output=True)
    with trace_collector() as collector:
        flags, env = traced_vllm(collector.url)
        with VllmServer(
            tmp_path / "model", tmp_path / "vllm.log", flags=flags, env=env, seconds=1200
        ) as engine:
            body = {"token_ids": [71, 295, 10], "sampling_params": {"max_tokens": 4}}
            for headers in ({}, {"traceparent": f"00-{TRACE}-{PARENT}-01"}):
                answer = httpx.post(
                    f"{engine.url}/inference/v1/generate", json=body, headers=headers, timeout=300
                )
                answer.raise_for_status()
            wait_until(lambda: collector.spans, "a span of the engine", 120)
    assert {(span.service, span.trace, span.parent) for span in collector.spans} == {
        ("envfarm-engine", TRACE, PARENT)
    }
