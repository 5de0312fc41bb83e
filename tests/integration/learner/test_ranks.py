"""The same update on 1, 2 and 4 ranks, at every ZeRO stage: the same losses, the same weights.

The base is plain PyTorch on one line after another. In float64 the loss agrees to 1e-10, and at stage 0
so do gradient norm and weights over three updates. ZeRO 1 and 2 sum gradients in float32 whatever the
model is in, and keep float32 masters: 1e-8 for the first gradient, 1e-5 after it. ZeRO 3 refuses
float64: 1e-5.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from learner.algorithm.recipe import Algorithm
from learner.batch import make_batch
from tests.support import exact_case, rank_script
from tests.support.rank_runs import FREE, LR, WIDE, case, run

CLIPPED = 0.05
"""Below the case's gradient norms."""


pytestmark = pytest.mark.prove
"""Minutes of CPU: every run starts several learners."""


@pytest.fixture(scope="module", autouse=True)
def double_norms():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Qwen3RMSNorm, "forward", exact_case.norm_in_its_own_precision)
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exact_case.save(exact_case.qwen3(), tmp_path_factory.mktemp("exact"))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ZeRO 3 really shards its embeddings: DeepSpeed keeps parameters below 100,000 whole."""
    return exact_case.save(exact_case.qwen3(vocabulary=WIDE), tmp_path_factory.mktemp("wide"))


def plain(
    model: Path, dtype: torch.dtype, grad_norm: float
) -> tuple[list[list[float]], dict[str, Tensor]]:
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
        norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        losses.append([float(total.detach()), float(norm)])
    return losses, {name: tensor.detach() for name, tensor in policy.state_dict().items()}


def assert_same(found, wanted, tolerance: float) -> None:
    (figures, weights), (steps, expected) = found, wanted
    for ours, theirs in zip(figures["losses"], steps, strict=True):
        assert ours == pytest.approx(theirs, rel=tolerance, abs=tolerance / 100)
    assert weights.keys() == expected.keys()
    for name, tensor in weights.items():
        assert torch.allclose(tensor, expected[name], rtol=tolerance, atol=tolerance / 10), name


DOUBLE = {"model.dtype": "float64"}
CASES = {
    "0-packed": {"model.zero_stage": 0, "batch.layout": "packed"},
    "0-shared": {"model.zero_stage": 0, "batch.layout": "shared"},
    "0-padded": {"model.zero_stage": 0, "batch.layout": "padded", "tokens": 30},
    "0-clipped": {"model.zero_stage": 0, "optimizer.grad_norm": CLIPPED},
    "1-packed": {"model.zero_stage": 1, "batch.layout": "packed", "tokens": 30},
    "1-clipped": {"model.zero_stage": 1, "optimizer.grad_norm": CLIPPED},
    "2-padded": {"model.zero_stage": 2, "batch.layout": "padded"},
    "2-whole": {"model.zero_stage": 2, "batch.layout": "packed", "tokens": 10_000},
}


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_every_stage_layout_and_number_of_ranks_gives_the_plain_update(
    model: Path, wide: Path, ranks: int, tmp_path: Path
):
    cases = [case(name, model, **DOUBLE, **settings) for name, settings in CASES.items()]
    tiles = {"batch.logits_at_once": 7 * WIDE, "batch.micro_batch_tokens": 60}
    cases.append(case("3-packed", wide, **{"model.zero_stage": 3, **tiles}))
    found = run(cases, ranks, tmp_path / "out")
    free = plain(model, torch.float64, FREE)
    clipped = plain(model, torch.float64, CLIPPED)
    for name in CASES:
        wanted = clipped if name.endswith("clipped") else free
        loss, norm = found[name][0]["losses"][0]
        assert loss == pytest.approx(wanted[0][0][0], rel=1e-10)
        assert norm == pytest.approx(wanted[0][0][1], rel=1e-8)
        assert_same(found[name], wanted, 1e-10 if name.startswith("0") else 1e-5)
    assert_same(found["3-packed"], plain(wide, torch.float32, FREE), 1e-5)
    probes = [
        torch.tensor(figures["probe"]) for name, (figures, _) in found.items() if name in CASES
    ]
    assert all(torch.allclose(probe, probes[0], atol=1e-5) for probe in probes[:3])


@pytest.mark.parametrize("stage", [0, 2])
def test_a_missing_factor_of_ranks_is_noticed(model: Path, stage: int, tmp_path: Path):
    forgets = case("forgets", model, **DOUBLE, **{"model.zero_stage": stage})
    found = run([forgets | {"fault": "no_factor"}], 2, tmp_path / "out")
    _, wanted = plain(model, torch.float64, FREE)[0][0]
    _, norm = found["forgets"][0]["losses"][0]
    assert norm == pytest.approx(wanted / 2, rel=1e-8), "the sum over ranks was an average"


def test_figures_are_over_all_ranks(model: Path, tmp_path: Path):
    whole, shared = (
        run([case("one", model, **DOUBLE)], ranks, tmp_path / str(ranks))["one"][0]["figures"]
        for ranks in (1, 2)
    )
    assert shared == pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_a_checkpoint_of_two_ranks_is_read_by_one_and_by_three(
    model: Path, wide: Path, stage: int, tmp_path: Path
):
    settings = {"model.zero_stage": stage}
    if stage == 3:
        model, settings["batch.logits_at_once"] = wide, 7 * WIDE
    whole = run([case("whole", model, **settings) | {"updates": 4}], 2, tmp_path / "whole")
    saves = case("first", model, **settings) | {"updates": 2, "save": tmp_path / "checkpoints"}
    run([saves], 2, tmp_path / "first")
    for ranks in (1, 3):
        goes_on = case("later", model, **settings)
        goes_on |= {"updates": 2, "from": tmp_path / "checkpoints"}
        figures, weights = run([goes_on], ranks, tmp_path / f"later-{ranks}")["later"]
        losses = whole["whole"][0]["losses"][2:]
        for ours, theirs in zip(figures["losses"], losses, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-4)
        for name, tensor in weights.items():
            assert torch.allclose(tensor, whole["whole"][1][name], rtol=1e-4, atol=1e-5), name
