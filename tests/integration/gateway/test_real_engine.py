"""The gateway against a real vLLM: token ids in and out, reload, and the probe that must agree."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from envfarm.errors import VersionMismatch
from envfarm.v1 import gateway_service_pb2 as wire
from envfarm.v1 import policy_pb2

from tests.integration.gateway.conftest import DOMAINS, Farm, golden_turns
from tests.support.gateway_process import probe
from tests.support.policy_server import PolicyServer
from tests.support.vllm_server import VllmServer

TASK = "orders/refund-damaged"
PROBE = [71, 295, 10, 44, 200, 301, 17, 9]
SCORE = """
import json, sys, torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
ids = torch.tensor([json.loads(sys.argv[2])])
with torch.no_grad():
    p = torch.log_softmax(model(ids).logits[0, :-1], -1)
print(json.dumps(p.gather(1, ids[0, 1:, None])[:, 0].tolist()))
"""

pytestmark = pytest.mark.timeout(900)
"""A vLLM starts in half a minute, and in minutes where others use the cores."""


def make_model(folder: Path, seed: int) -> Path:
    texts = [str(DOMAINS / "orders/world/policy.md")]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "learner.tiny_model",
            "--out",
            folder,
            "--seed",
            str(seed),
            "--text",
            *texts,
        ],
        check=True,
        capture_output=True,
    )
    return folder


def score(folder: Path) -> list[float]:
    """The probe's log-probabilities by transformers."""
    answer = subprocess.run(
        [sys.executable, "-c", SCORE, folder, json.dumps(PROBE)],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(answer.stdout.splitlines()[-1])


def update(folder: Path, number: int, logprobs: list[float]) -> policy_pb2.WeightUpdate:
    version = policy_pb2.PolicyVersion(run_id="run", number=number, weights_hash=f"{number}" * 64)
    return probe(version, folder, PROBE, logprobs, tolerance=1e-4)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("models")
    return make_model(root / "1", 1), make_model(root / "2", 2)


@pytest.fixture(scope="module")
def vllm(
    models: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VllmServer]:
    with VllmServer(models[0], tmp_path_factory.mktemp("vllm") / "vllm.log") as server:
        yield server


async def test_real_weights_are_reloaded_probed_and_sampled_from(
    farm: Callable[..., Farm], vllm: VllmServer, models: tuple[Path, Path]
):
    first, second = score(models[0]), score(models[1])
    it = farm(lambda *_: "", engines=vllm.url, tokenizer_dir=models[0])
    answer = await it.gateway.announce(update(models[0], 1, first))
    assert answer.max_logprob_gap < 1e-5
    answer = await it.gateway.announce(update(models[1], 2, second))
    assert answer.max_logprob_gap < 1e-5

    await it.gateway.submit("job", [TASK], group_size=2, publish=False)
    job = await it.gateway.done("job", seconds=180)
    assert (job.state, job.groups_recorded) == (wire.JOB_STATE_DONE, 1)
    record = (await it.gateway.get("/v1/rollouts/job.0.0.s0.a1")).json()
    assert record["versions"] == [2]
    assert record["sampled_tokens"] > 0

    with pytest.raises(VersionMismatch, match="differ by"):
        await it.gateway.announce(update(models[0], 3, second))
    status = await it.gateway.call("GetStatus", wire.GetStatusRequest())
    assert not status.HasField("in_service")
    assert [engine.healthy for engine in status.engines] == [False]
    answer = await it.gateway.announce(update(models[1], 4, second))
    assert answer.in_service.number == 4


async def test_scripted_turns_carry_the_real_models_log_probabilities(
    farm: Callable[..., Farm], vllm: VllmServer, models: tuple[Path, Path]
):
    turns = golden_turns(TASK)

    def script(rollout_id: str, turn: int, prompt: str) -> str:
        return turns[turn] if ".s0." in rollout_id else "Good day."

    with PolicyServer(models[0], script, upstream=vllm.url) as engine:
        it = farm(script, engines=engine.url, tokenizer_dir=models[0])
        await it.gateway.announce(update(models[0], 1, score(models[0])))
        await it.gateway.submit("job", [TASK], group_size=2)
        job = await it.gateway.done("job", seconds=120)
        assert job.groups_published == 1, it.gateway.log()[-3000:]
    (group,) = it.stream.groups()
    assert [r.verdict.reward for r in group.rollouts] == [1.0, 0.0]
    trajectory = group.rollouts[0].trajectory
    sampled = [x for x, bit in zip(trajectory.logprobs, trajectory.loss_mask, strict=True) if bit]
    assert all(-30 < x < 0 for x in sampled)
    # Random weights over 512 tokens: about log 512 for each.
    assert 5 < -sum(sampled) / len(sampled) < 8
