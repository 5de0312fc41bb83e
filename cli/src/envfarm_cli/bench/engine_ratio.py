"""The gateway's tokens a second over those of vLLM's own benchmark on the same engine.

vLLM's benchmark gets the very prompts that the gateway sent, in their order, and samples each to the
length that the gateway got: 32 at once, with the gateway's sampling and log-probabilities. Runs
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
from envfarm.record_frames import FILE, read_rollouts
from envfarm.v1 import gateway_service_pb2 as wire
from envfarm.v1 import policy_pb2, trajectory_pb2
from tokenizers import Tokenizer

from envfarm_cli.bench import world
from envfarm_cli.failure import Failure
from envfarm_cli.gateway_client import GatewayClient
from envfarm_cli.service_specs import StackOptions
from envfarm_cli.stack import Stack
from envfarm_cli.state_dir import StateDir

CONCURRENCY, REQUESTS, GROUP_SIZE = 32, 64, 8
SECONDS = 600
Request = tuple[list[int], int]
"""Prompt, and how many tokens were sampled after it."""


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
        requests: list[Request] = []
        with GatewayClient(
            stack.address("gateway", "grpc"), apart.secrets()["gateway_infra"]
        ) as client:
            announce_as_it_is(client, model, engine)
            for pair in range(pairs + 1):
                mine, requests = _through_the_gateway(client, stack, f"p{pair}")
                result = apart.path / f"pair-{pair}.json"
                beside = vllm_bench(engine, model, requests, result)
                if not pair:
                    continue  # it warmed both up
                found.append((mine, beside))
                say(f"pair {pair}: gateway {mine:.0f} tok/s, vllm {beside:.0f}")
    return {
        "gateway_tokens_per_s": median([mine for mine, _ in found]),
        "engine_tokens_per_s": median([theirs for _, theirs in found]),
        "ratio": median([mine / theirs for mine, theirs in found]),
        "ratios": [round(mine / theirs, 3) for mine, theirs in found],
        "prompt_tokens": round(statistics.mean(len(prompt) for prompt, _ in requests)),
        "output_tokens": round(statistics.mean(count for _, count in requests)),
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
    client: GatewayClient, stack: Stack, job_id: str
) -> tuple[float, list[Request]]:
    """Sampled tokens a second, and every generation of the job in the order of its end."""
    request = wire.SubmitJobRequest(
        job_id=job_id,
        run_id="bench",
        kind=wire.JOB_KIND_PROBE,
        task_ids=[world.ID],
        groups_per_task=REQUESTS // GROUP_SIZE,
        group_size=GROUP_SIZE,
    )
    started = time.perf_counter()
    client.submit(request)
    client.wait_for_job(job_id, SECONDS, lambda status: stack.fail_when_one_died())
    seconds = time.perf_counter() - started
    assert stack.records is not None
    requests = generations(stack.records / "jobs" / job_id / FILE)
    return sum(count for _, count in requests) / seconds, requests


def generations(records: Path) -> list[Request]:
    """What the engine was asked for and gave, of every recorded attempt."""
    return [
        (list(rollout.trajectory.token_ids[: turn.token_start]), turn.token_length)
        for rollout in read_rollouts(records)
        for turn in rollout.trajectory.turns
        if turn.kind == trajectory_pb2.TURN_KIND_ASSISTANT
    ]


def vllm_bench(engine: str, model: Path, requests: list[Request], result: Path) -> float:
    """Output tokens a second of `vllm bench serve` over the same prompts and lengths."""
    words = Tokenizer.from_file(str(model / "tokenizer.json"))
    dataset = result.with_suffix(".jsonl")
    lines = [
        json.dumps({"prompt": words.decode(ids, skip_special_tokens=False), "output_tokens": count})
        for ids, count in requests
    ]
    dataset.write_text("\n".join(lines) + "\n")
    flags = {
        "--backend": "openai",
        "--base-url": engine,
        "--endpoint": "/v1/completions",
        "--model": "policy",
        "--tokenizer": model,
        "--dataset-name": "custom",
        "--dataset-path": dataset,
        "--custom-output-len": -1,
        "--num-prompts": len(requests),
        "--max-concurrency": CONCURRENCY,
        "--temperature": 1.0,
        "--top-k": 20,
        "--top-p": 0.95,
        "--logprobs": 0,
        "--result-dir": result.parent,
        "--result-filename": result.name,
    }
    texts = [str(word) for pair in flags.items() for word in pair]
    switches = ["--skip-chat-template", "--disable-shuffle", "--ignore-eos", "--save-result"]
    done = subprocess.run(
        [Path(sys.executable).with_name("vllm"), "bench", "serve", *texts, *switches],
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
