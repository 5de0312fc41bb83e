"""The DeepSpeed engine: what a step does, and ten losses that must not change unnoticed.

`REWRITE_GOLDEN=1 pytest tests/unit/learner/test_engine.py` writes the file anew after a change of
the numbers that was wanted.
"""

import os
from pathlib import Path

import pytest
import torch
from envfarm.canonical import bytes_hash
from envfarm.errors import LearnerError

from learner.algorithm.presets import PRESETS
from learner.algorithm.recipe import Algorithm
from learner.batch import Batch, make_batch
from learner.config import load
from learner.decode import decode
from learner.trainee import Trainee
from learner.update import PassResult
from tests.support.groups import make_group, policy
from tests.support.learner_process import CONFIG, ROOT, make_tiny_model
from tests.support.recording_gateway import score_with

GOLDEN = ROOT / "tests/golden/loss_tiny_cpu.txt"
RECIPE = Algorithm.model_validate(PRESETS["reference"])
TEXT = "Order 4711 was paid on 2026-03-02; refund 12.50 to the customer. " * 40
REWARDS = [[1, 0, 0, 1, 0, 0, 1, 0], [0, 0, 0, 0, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0, 1]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    (folder / "text.txt").write_text(TEXT)
    return make_tiny_model(folder / "model", folder / "text.txt", seed=7)


@pytest.fixture(scope="module")
def scored(model: Path):
    score = score_with(model)

    def group(index: int, rewards: list[float]):
        message = make_group(
            f"g{index}", rewards, policy(0, "h0"), score, seed=index, vocabulary=250
        )
        data = message.SerializeToString()
        return decode(data, bytes_hash(data), f"g{index}")

    return group


def gradients(trainee: Trainee, batch: Batch, version: int | None = None) -> PassResult:
    return trainee.forward_backward(batch.work, version)


def weights(trainee: Trainee) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for p in trainee.engine.model.parameters()])


def trainee_with(model: Path, *overrides: str) -> Trainee:
    ours = [f"model.path={model}", "optimizer.lr=1e-3", "batch.micro_batch_tokens=100"]
    return Trainee(load(CONFIG, [*ours, *overrides]))


@pytest.fixture
def trainee(model: Path) -> Trainee:
    return trainee_with(model)


def test_ten_updates_give_the_committed_losses(model: Path, scored):
    # With a small ε the sign of every gradient near 0 is a full step, and processors differ in it.
    trainee = trainee_with(model, "optimizer.eps=1e-2")
    lines = []
    for index in range(10):
        batch = make_batch([scored(index, REWARDS[index % 3])], RECIPE)
        assert sum(map(len, batch.lines)) > 100
        result = gradients(trainee, batch, 0 if index == 0 else None)
        if index == 0:
            assert result.mismatch_gap < 1e-5
        lines.append((result.loss, trainee.step(index)))
    text = "".join(f"{loss:.6e} {norm:.6e}\n" for loss, norm in lines)
    if os.environ.get("REWRITE_GOLDEN"):
        GOLDEN.write_text("# loss, gradient norm before clipping; one update a line\n" + text)
    wanted = [tuple(map(float, line.split())) for line in GOLDEN.read_text().splitlines()[1:]]
    assert len(wanted) == 10
    for ours, golden in zip(lines, wanted, strict=True):
        # Processors differ in the last bits of float32; the formulas do not.
        assert ours == pytest.approx(golden, rel=1e-4, abs=1e-7)


def test_one_step_is_the_textbook_adamw_on_the_clipped_gradient(trainee: Trainee, scored):
    batch = make_batch([scored(1, REWARDS[0])], RECIPE)
    before = weights(trainee)
    gradients(trainee, batch)
    gradient = torch.cat([p.grad.flatten().clone() for p in trainee.engine.model.parameters()])  # pyright: ignore
    norm = trainee.step(0)
    assert norm == pytest.approx(float(gradient.double().norm()), rel=1e-5)
    clipped = gradient * min(1.0, 1.0 / norm)
    # First step of Adam: both bias corrections cancel, so m/(√v + ε) = g/(|g| + ε).
    expected = before - 1e-3 * clipped / (clipped.abs() + 1e-8)
    assert torch.allclose(weights(trainee), expected, rtol=0, atol=2e-6)
    assert all(p.grad is None or not p.grad.any() for p in trainee.engine.model.parameters())


def test_a_warmed_up_run_begins_with_a_share_of_the_rate(model: Path, scored):
    batch = make_batch([scored(1, REWARDS[0])], RECIPE)
    moved = []
    for warmup in (0, 4):
        overrides = [f"model.path={model}", f"schedule.warmup_steps={warmup}"]
        trainee = Trainee(load(CONFIG, overrides))
        before = weights(trainee)
        gradients(trainee, batch)
        trainee.step(0)
        moved.append(float((weights(trainee) - before).abs().max()))
    assert moved[1] == pytest.approx(moved[0] / 4, rel=1e-2)


def test_a_batch_without_a_signal_makes_no_gradient(trainee: Trainee, scored):
    flat = make_batch([scored(2, [1.0] * 8)], RECIPE)
    assert not flat.has_signal
    before = weights(trainee)
    result = gradients(trainee, flat, 0)
    assert result.loss == 0.0
    assert 0.0 < result.mismatch_gap < 1e-5
    assert torch.equal(weights(trainee), before)
    assert all(p.grad is None or not p.grad.any() for p in trainee.engine.model.parameters())


def test_a_gradient_that_is_not_finite_leaves_the_model_as_it_was(trainee: Trainee, scored):
    before = weights(trainee)
    gradients(trainee, make_batch([scored(5, REWARDS[0])], RECIPE))
    next(trainee.engine.model.parameters()).grad.fill_(float("nan"))  # pyright: ignore
    with pytest.raises(LearnerError, match="the gradient norm is nan"):
        trainee.step(0)
    assert torch.equal(weights(trainee), before)


def test_the_gap_looks_at_tokens_of_the_current_version_only(trainee: Trainee, scored):
    taken = scored(4, REWARDS[0])
    for attempt in taken.attempts:
        attempt.logprobs[attempt.loss_mask == 1] -= 0.25
    batch = make_batch([taken], RECIPE)
    assert gradients(trainee, batch, 0).mismatch_gap == pytest.approx(0.25, abs=1e-4)
    assert gradients(trainee, batch, 1).mismatch_gap == 0.0


def test_the_probe_is_the_models_own_log_probability(trainee: Trainee, model: Path):
    ids = [5, 9, 2, 77, 130, 5]
    assert trainee.probe(ids) == pytest.approx(score_with(model)(ids), abs=1e-5)
