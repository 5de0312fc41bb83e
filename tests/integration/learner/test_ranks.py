"""The same update on 1, 2 and 4 ranks, at every ZeRO stage: the same losses, the same weights.

The base is plain PyTorch on one big batch. float64 to 1e-10; ZeRO 3 refuses it, float32 to 1e-5.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from learner.algorithm.recipe import Algorithm
from learner.batch import make_batch
from tests.support import exact_case, rank_script
from tests.support.learner_process import ROOT

LR = 1e-2
NORM = 0.05
"""Below the case's gradient norms, so that clipping takes part."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exact_case.save(exact_case.qwen3(), tmp_path_factory.mktemp("exact"))


def case(name: str, model: Path, *, tokens: int = 60, **settings) -> dict:
    fixed = {
        "model.path": model,
        "optimizer.lr": LR,
        "optimizer.grad_norm": NORM,
        "batch.micro_batch_tokens": tokens,
        "batch.logits_at_once": 700,
    }
    return {
        "name": name,
        "overrides": [f"{k}={v}" for k, v in {**fixed, **settings}.items()],
    }


def run(cases: list[dict], ranks: int, out: Path) -> dict[str, tuple[dict, dict[str, Tensor]]]:
    out.mkdir(exist_ok=True)
    (out / "cases.json").write_text(json.dumps(cases, default=str))
    arguments = [str(Path(rank_script.__file__)), str(out / "cases.json"), str(out)]
    command = [sys.executable, *arguments]
    if ranks > 1:
        launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
        command = [sys.executable, *launcher, *arguments]
    done = subprocess.run(
        command,
        env={
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return {
        one["name"]: (
            json.loads((out / f"{one['name']}.json").read_text()),
            load_file(out / f"{one['name']}.safetensors"),
        )
        for one in cases
    }


def plain(model: Path, dtype: torch.dtype) -> tuple[list[list[float]], dict[str, Tensor]]:
    """One big padded batch, torch's AdamW and clipping; nothing of the learner but the lines."""
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=dtype, attn_implementation="sdpa")
    optimizer = torch.optim.AdamW(
        policy.parameters(), lr=LR, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0
    )
    batch = make_batch(exact_case.groups(), Algorithm.model_validate({"preset": "reference"}))
    losses = []
    for _ in range(rank_script.UPDATES):
        total = torch.zeros((), dtype=dtype)
        for line in batch.lines:
            ids = torch.from_numpy(line.token_ids)[None]
            new = policy(ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
            at = torch.from_numpy(line.sampled)[1:]
            ratio = (new - torch.from_numpy(line.old_logprobs)[1:]).exp()[at]
            held = ratio.clamp(0.8, 1.2)
            gain = torch.minimum(ratio * line.advantage, held * line.advantage)
            total = total - gain.sum() / batch.tokens
        total.backward()
        norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), NORM)
        optimizer.step()
        optimizer.zero_grad()
        losses.append([float(total.detach()), float(norm)])
    return losses, {name: tensor.detach() for name, tensor in policy.state_dict().items()}


def assert_same(found, wanted, tolerance: float) -> None:
    (figures, weights), (losses, expected) = found, wanted
    for ours, theirs in zip(figures["losses"], losses, strict=True):
        assert ours == pytest.approx(theirs, rel=tolerance, abs=tolerance / 100)
    assert weights.keys() == expected.keys()
    for name, tensor in weights.items():
        assert torch.allclose(tensor, expected[name], rtol=tolerance, atol=tolerance / 10), name


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_every_stage_layout_and_number_of_ranks_gives_the_plain_update(
    model: Path, ranks: int, tmp_path: Path
):
    double = {"model.dtype": "float64"}
    cases = [
        case(f"{layout}-{stage}-{tokens}", model, tokens=tokens, **double,
             **{"model.zero_stage": stage, "batch.layout": layout})
        for stage, layout, tokens in (
            (0, "packed", 60), (0, "padded", 30), (1, "packed", 30), (2, "padded", 60),
            (2, "packed", 10_000),
        )
    ]  # fmt: skip
    cases.append(case("three", model, **{"model.zero_stage": 3, "batch.layout": "packed"}))
    found = run(cases, ranks, tmp_path / "out")
    wanted = plain(model, torch.float64)
    for name in (one["name"] for one in cases[:-1]):
        assert_same(found[name], wanted, 1e-10)
    assert_same(found["three"], plain(model, torch.float32), 1e-5)
    probes = [torch.tensor(figures["probe"]) for figures, _ in found.values()]
    assert all(torch.allclose(probe, probes[0], atol=1e-5) for probe in probes)
