"""The gateway's tokens a second over those of vLLM's own benchmark on the same engine.

Both ask for the same prompts' length and let each request sample to the same length, 32 at once; runs
alternate, so that what else the machine does meets both.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from envfarm.attempt_row import AttemptRow
from envfarm.v1 import gateway_service_pb2 as wire
from envfarm.v1 import policy_pb2

from envfarm_cli.bench import world
from envfarm_cli.failure import Failure
from envfarm_cli.gateway_client import GatewayClient
from envfarm_cli.service_specs import StackOptions
from envfarm_cli.stack import Stack
from envfarm_cli.state_dir import StateDir

CONCURRENCY, REQUESTS, GROUP_SIZE = 32, 128, 8
SECONDS = 300


def measure(
    apart: StateDir, domains: Path, pairs: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """`gateway_tokens_per_s`, `engine_tokens_per_s` and `ratio`, each the median over the pairs."""
    ours = {
        "GATEWAY_USERS": "none",
        "GATEWAY_CONCURRENCY": str(CONCURRENCY),
        "GATEWAY_LEAST_CONCURRENCY": str(CONCURRENCY),
        "GATEWAY_LOG_LEVEL": "warning",
    }
    theirs = {
        "ENV_SERVER_MAX_EPISODES": str(2 * CONCURRENCY),
        "ENV_SERVER_READY_LOW": str(CONCURRENCY),
        "ENV_SERVER_READY_HIGH": str(CONCURRENCY + 8),
    }
    options = StackOptions(
        domains=domains, engine="vllm", gateway_settings=ours, env_settings=theirs
    )
    with Stack(apart, options, lambda line: None) as stack:
        model = stack.make_model()
        stack.start_engine()
        stack.start_valkey()
        stack.start_env_server()
        stack.start_grader()
        stack.prove("bench")
        stack.wait_for_engine()
        stack.start_gateway()
        engine = stack.address("engine", "http")
        found: list[tuple[float, float]] = []
        with GatewayClient(
            stack.address("gateway", "grpc"), apart.secrets()["gateway_infra"]
        ) as client:
            announce_as_it_is(client, model, engine)
            _, prompt, output = _through_the_gateway(client, stack, "warm-up", CONCURRENCY)
            vllm_bench(engine, model, prompt, output, apart.path / "warm-up.json", CONCURRENCY)
            for pair in range(pairs):
                mine, prompt, output = _through_the_gateway(client, stack, f"p{pair}", REQUESTS)
                result = apart.path / f"pair-{pair}.json"
                found.append((mine, vllm_bench(engine, model, prompt, output, result, REQUESTS)))
                say(f"pair {pair + 1}: gateway {found[-1][0]:.0f} tok/s, vllm {found[-1][1]:.0f}")
    return {
        "gateway_tokens_per_s": median([mine for mine, _ in found]),
        "engine_tokens_per_s": median([theirs for _, theirs in found]),
        "ratio": median([mine / theirs for mine, theirs in found]),
        "ratios": [round(mine / theirs, 3) for mine, theirs in found],
        "prompt_tokens": prompt,
        "output_tokens": output,
    }


def announce_as_it_is(client: GatewayClient, model: Path, engine: str) -> None:
    """Version 0 is what the engine holds already: the probe repeats the engine's own answer."""
    ids = [5, 9, 13, 200, 7]
    parameters = {"max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0}
    body = {"model": "policy", "token_ids": ids, "sampling_params": parameters, "stream": False}
    answer = httpx.post(f"{engine}/inference/v1/generate", json=body, timeout=60, trust_env=False)
    rows = answer.json()["prompt_logprobs"][1:]
    logprobs = [row[str(number)]["logprob"] for row, number in zip(rows, ids[1:], strict=True)]
    client.announce(
        policy_pb2.WeightUpdate(
            version=policy_pb2.PolicyVersion(run_id="bench", number=0, weights_hash="b" * 64),
            path=str(model.resolve()),
            probe=policy_pb2.ProbePrompt(token_ids=ids, logprobs=logprobs, tolerance=1e-2),
            learner_epoch=1,
        )
    )


def _through_the_gateway(
    client: GatewayClient, stack: Stack, job_id: str, attempts: int
) -> tuple[float, int, int]:
    """Sampled tokens a second, and the mean lengths of prompt and answer of a generation."""
    request = wire.SubmitJobRequest(
        job_id=job_id,
        run_id="bench",
        kind=wire.JOB_KIND_PROBE,
        task_ids=[world.ID],
        groups_per_task=attempts // GROUP_SIZE,
        group_size=GROUP_SIZE,
    )
    started = time.perf_counter()
    client.submit(request)
    client.wait_for_job(job_id, SECONDS, lambda status: stack.fail_when_one_died())
    seconds = time.perf_counter() - started
    assert stack.records is not None
    lines = (stack.records / "jobs" / job_id / "attempts.jsonl").read_text().splitlines()
    rows = [AttemptRow.from_json(line, job_id) for line in lines]
    turns = sum(row.turns for row in rows)
    sampled = sum(row.sampled_tokens for row in rows)
    prompt = sum(row.prompt_tokens for row in rows) // turns
    return sampled / seconds, prompt, max(1, sampled // turns)


def vllm_bench(
    engine: str, model: Path, prompt: int, output: int, result: Path, requests: int
) -> float:
    """Output tokens a second of `vllm bench serve`."""
    program = Path(sys.executable).with_name("vllm")
    flags = {
        "--backend": "openai",
        "--base-url": engine,
        "--endpoint": "/v1/completions",
        "--model": "policy",
        "--tokenizer": model,
        "--dataset-name": "random",
        "--random-input-len": prompt,
        "--random-output-len": output,
        "--num-prompts": requests,
        "--max-concurrency": CONCURRENCY,
        "--result-dir": result.parent,
        "--result-filename": result.name,
    }
    words = [str(word) for pair in flags.items() for word in pair]
    done = subprocess.run(
        [program, "bench", "serve", *words, "--ignore-eos", "--save-result"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise Failure(f"vllm bench serve failed: {done.stderr.strip()[-300:]}")
    return float(json.loads(result.read_text())["output_throughput"])


def median(values: list[float]) -> float:
    return round(statistics.median(values), 3)
