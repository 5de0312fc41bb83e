"""The DeepSpeed engine: what a step does, and ten losses that must not change unnoticed.

`REWRITE_GOLDEN=1 pytest tests/unit/learner/test_engine.py` writes the file anew after a change of
the numbers that was wanted.
"""

import os
from pathlib import Path

import pytest
import torch
from envfarm.canonical import bytes_hash

from learner.batch import make_batch
from learner.config import load
from learner.decode import decode
from learner.engine import TrainerEngine
from tests.support.groups import make_group, policy
from tests.support.learner_process import CONFIG, ROOT, make_tiny_model
from tests.support.recording_gateway import score_with

GOLDEN = ROOT / "tests/golden/loss_tiny_cpu.txt"
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


@pytest.fixture
def engine(model: Path) -> TrainerEngine:
    overrides = [f"model.path={model}", "optimizer.lr=1e-3"]
    return TrainerEngine(load(CONFIG, overrides))


def weights(engine: TrainerEngine) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for p in engine.model.parameters()])


def test_ten_updates_give_the_committed_losses(engine: TrainerEngine, scored):
    lines = []
    for index in range(10):
        batch = make_batch([scored(index, REWARDS[index % 3])], 160)
        assert len(batch.micro_batches) > 1
        result = engine.forward_backward(batch, current_version=0 if index == 0 else None)
        if index == 0:
            assert result.mismatch_gap < 1e-5
        lines.append((result.loss, engine.step()))
    text = "".join(f"{loss:.6e} {norm:.6e}\n" for loss, norm in lines)
    if os.environ.get("REWRITE_GOLDEN"):
        GOLDEN.write_text("# loss, gradient norm before clipping; one update a line\n" + text)
    wanted = [tuple(map(float, line.split())) for line in GOLDEN.read_text().splitlines()[1:]]
    assert len(wanted) == 10
    for ours, golden in zip(lines, wanted, strict=True):
        # Processors differ in the last bits of float32; the formulas do not.
        assert ours == pytest.approx(golden, rel=1e-3, abs=1e-7)


def test_one_step_is_the_textbook_adamw_on_the_clipped_gradient(engine: TrainerEngine, scored):
    batch = make_batch([scored(1, REWARDS[0])], 10_000)
    before = weights(engine)
    engine.forward_backward(batch, current_version=None)
    gradient = torch.cat([p.grad.flatten().clone() for p in engine.model.parameters()])  # pyright: ignore
    norm = engine.step()
    assert norm == pytest.approx(float(gradient.double().norm()), rel=1e-5)
    clipped = gradient * min(1.0, 1.0 / norm)
    # First step of Adam: both bias corrections cancel, so m/(√v + ε) = g/(|g| + ε).
    expected = before - 1e-3 * clipped / (clipped.abs() + 1e-8)
    assert torch.allclose(weights(engine), expected, rtol=0, atol=2e-6)


def test_gradients_do_not_leak_into_the_next_update(engine: TrainerEngine, scored):
    flat = make_batch([scored(2, [1.0] * 8)], 160)
    assert not flat.has_signal
    before = weights(engine)
    result = engine.forward_backward(flat, current_version=None)
    assert result.loss == 0.0
    engine.drop_gradients()
    assert torch.equal(weights(engine), before)
    signal = make_batch([scored(3, REWARDS[1])], 160)
    engine.forward_backward(signal, current_version=None)
    once = engine.step()
    engine.forward_backward(signal, current_version=None)
    engine.drop_gradients()
    assert once > 0
    assert all(p.grad is None or not p.grad.any() for p in engine.model.parameters())


def test_the_gap_looks_at_tokens_of_the_current_version_only(engine: TrainerEngine, scored):
    batch = make_batch([scored(4, REWARDS[0])], 10_000)
    for micro_batch in batch.micro_batches:
        micro_batch.old_logprobs[:] -= 0.25
    assert engine.forward_backward(batch, current_version=0).mismatch_gap == pytest.approx(
        0.25, abs=1e-4
    )
    engine.drop_gradients()
    assert engine.forward_backward(batch, current_version=1).mismatch_gap == 0.0
    engine.drop_gradients()


def test_the_probe_is_the_models_own_log_probability(engine: TrainerEngine, model: Path):
    ids = [5, 9, 2, 77, 130, 5]
    assert engine.probe(ids) == pytest.approx(score_with(model)(ids), abs=1e-5)
