"""The whole path from groups to loss against an independent one, and faults that it must notice.

In float64 on a two-layer model; see tests/support/exact_case.py.
"""

import numpy as np
import pytest
import torch
from transformers import AttentionInterface, PreTrainedModel
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from learner import attention
from learner.algorithm.loss import Tokens, share
from learner.algorithm.presets import PRESETS
from learner.algorithm.recipe import Algorithm
from learner.batch import make_batch
from learner.group import TakenGroup
from learner.logprobs import TokenScorer
from learner.micro_batch import MicroBatch, split
from learner.model_config import Layout, Model
from learner.reference_model import ReferenceModel
from tests.support import exact_case
from tests.support.exact_case import VOCABULARY, reference_loss
from tests.support.learner_samples import attempt, group

AttentionInterface.register(attention.NAME, attention.attend)
PLAIN = {**PRESETS["reference"], "clip_high": 0.28}
VARIANTS = {
    "plain": {},
    "std": {"advantage": "std"},
    "rloo": {"advantage": "rloo"},
    "sequence_mean": {"aggregation": "sequence_mean"},
    "constant": {"aggregation": "constant", "constant_tokens": 40},
    "gspo": {"surrogate": "gspo", "aggregation": "sequence_mean", "clip_low": 0.9},
    "cispo": {"surrogate": "cispo", "clip_low": 1.0, "clip_high": 5.0},
    "tis": {"correction": "tis", "correction_high": 2.0},
    "icepop": {"correction": "icepop", "correction_low": 0.5, "correction_high": 5.0},
    "sequence_mask": {"correction": "sequence_mask", "correction_low": 0.5, "correction_high": 2.0},
    "k1": {"kl": "k1", "kl_coefficient": 0.1, "kl_reference": "initial"},
    "k2": {"kl": "k2", "kl_coefficient": 0.1, "kl_reference": "initial"},
    "k3": {"kl": "k3", "kl_coefficient": 0.1, "kl_reference": "engine"},
    "entropy": {"entropy_coefficient": 0.05},
    "overlong_mask": {"overlong": "mask"},
    "overlong_penalty": {"overlong": "penalty", "overlong_tokens": 8, "overlong_buffer": 5},
}


def recipe(**changes) -> dict:
    return {**PLAIN, **changes}


@pytest.fixture(scope="module", autouse=True)
def double_norms():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Qwen3RMSNorm, "forward", exact_case.norm_in_its_own_precision)
        yield


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return exact_case.qwen3().double()


@pytest.fixture(scope="module")
def initial(tmp_path_factory: pytest.TempPathFactory) -> tuple[PreTrainedModel, ReferenceModel]:
    other = exact_case.qwen3(seed=4)
    folder = exact_case.save(other, tmp_path_factory.mktemp("initial"))
    settings = Model(
        path=folder,
        dtype="float64",
        zero_stage=0,
        offload="none",
        gradient_checkpointing=False,
        offload_activations=False,
        sequence_parallel=1,
        mlp_tiles=1,
        max_tokens=100,
    )
    layout = Layout(layout="packed", micro_batch_tokens=60, logits_at_once=1000)
    return other.double(), ReferenceModel(settings, layout, torch.device("cpu"))


@pytest.fixture(scope="module")
def groups() -> list[TakenGroup]:
    return exact_case.groups()


def our_loss(
    model,
    groups,
    *,
    chosen: dict = PLAIN,
    initial: ReferenceModel | None = None,
    tokens=10_000,
    tile=7,
    packed=True,
    shared=False,
    change=lambda m, n: m,
):
    """Loss and flat gradient by the learner's code; `change` plants a fault."""
    model.zero_grad()
    model.set_attn_implementation(attention.NAME)
    scorer = TokenScorer(model, tile * VOCABULARY)
    algorithm = Algorithm.model_validate(chosen)
    batch = make_batch(groups, algorithm)
    ((*parts,),) = split(batch.lines, tokens=tokens, packed=packed, shared=shared)
    total = 0.0
    for part in parts:
        m = change(part, batch.tokens)
        lengths = m.lengths if m.packed else None
        scores = scorer(m.token_ids, m.positions, lengths, m.predicts, m.targets, "learn", m.shared)
        known = Tokens(
            lines=m.lines,
            weights=m.weights,
            advantages=m.advantages,
            engine=m.old_logprobs,
            reference=None if initial is None else initial.score(m),
        )
        made = share(algorithm, scores[0], scores[1], known)
        made.loss.backward()
        total += float(made.loss.detach())
    gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
    return total, gradient, len(parts)


@pytest.mark.parametrize("name", VARIANTS)
def test_loss_equals_the_independent_one(model, groups, initial, name: str):
    chosen = recipe(**VARIANTS[name])
    theirs, frozen = initial if chosen["kl_reference"] == "initial" else (None, None)
    ours, _, count = our_loss(model, groups, chosen=chosen, initial=frozen, tokens=60)
    assert count > 1
    assert ours == pytest.approx(reference_loss(model, groups, chosen, theirs), rel=1e-10)
    if name != "plain":
        assert abs(ours - our_loss(model, groups)[0]) > 1e-4


@pytest.mark.parametrize("tokens", [24, 60, 110])
@pytest.mark.parametrize("tile", [1, 5, 1000])
@pytest.mark.parametrize(("packed", "shared"), [(True, False), (True, True), (False, False)])
def test_micro_batches_tiles_and_layout_change_nothing(
    model, groups, tokens: int, tile: int, packed: bool, shared: bool
):
    whole, gradient, _ = our_loss(model, groups)
    other, parts, count = our_loss(
        model, groups, tokens=tokens, tile=tile, packed=packed, shared=shared
    )
    assert count > 1
    assert other == pytest.approx(whole, rel=1e-10)
    assert torch.allclose(parts, gradient, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", ["gspo", "sequence_mask", "sequence_mean"])
def test_what_looks_at_whole_lines_does_not_depend_on_the_layout(model, groups, name: str):
    chosen = recipe(**VARIANTS[name])
    whole, gradient, _ = our_loss(model, groups, chosen=chosen)
    for packed in (True, False):
        other, parts, _ = our_loss(model, groups, chosen=chosen, tokens=24, packed=packed)
        assert other == pytest.approx(whole, rel=1e-10)
        assert torch.allclose(parts, gradient, rtol=1e-10, atol=1e-13)


def test_the_gradient_agrees_with_a_finite_difference(model, groups):
    _, gradient, _ = our_loss(model, groups)
    weight = model.lm_head.weight
    offset = sum(p.numel() for p in model.parameters()) - weight.numel()
    index = int(gradient[offset:].abs().argmax())
    step = 1e-6
    with torch.no_grad():
        weight.view(-1)[index] += step
        above = reference_loss(model, groups, PLAIN)
        weight.view(-1)[index] -= 2 * step
        below = reference_loss(model, groups, PLAIN)
        weight.view(-1)[index] += step
    slope = (above - below) / (2 * step)
    assert float(gradient[offset + index]) == pytest.approx(slope, rel=1e-5)


def _replace(m: MicroBatch, **changes) -> MicroBatch:
    values = {name: getattr(m, name) for name in MicroBatch.__dataclass_fields__}
    return MicroBatch(**{**values, **changes})


def local_denominator(m: MicroBatch, tokens: int):
    return _replace(m, weights=torch.full_like(m.weights, 1 / max(len(m.weights), 1)))


def mask_shifted_by_one(m: MicroBatch, tokens: int):
    return _replace(m, predicts=m.predicts + 1, targets=m.targets.roll(-1))


def shifted_old_logprobs(m: MicroBatch, tokens: int):
    return _replace(m, old_logprobs=m.old_logprobs.roll(1))


def wrong_old_logprobs(m: MicroBatch, tokens: int):
    return _replace(m, old_logprobs=m.old_logprobs - 0.05)


def standard_deviation_left_in(m: MicroBatch, tokens: int):
    return _replace(m, advantages=m.advantages / 0.5)


def targets_not_shifted(m: MicroBatch, tokens: int):
    return _replace(m, targets=m.token_ids.flatten()[m.predicts])


def all_tokens_counted(m: MicroBatch, tokens: int):
    return _replace(m, weights=m.weights * tokens / (3 * tokens))


def nothing_seen_of_what_is_shared(m: MicroBatch, tokens: int):
    return _replace(m, shared=0, lengths=(m.shared, *m.lengths))


def lines_seen_as_one(m: MicroBatch, tokens: int):
    return _replace(m, lengths=(sum(m.lengths),))


def positions_not_started_anew(m: MicroBatch, tokens: int):
    return _replace(m, positions=torch.arange(m.token_ids.numel())[None] * 2)


@pytest.mark.parametrize(
    "fault",
    [
        local_denominator,
        mask_shifted_by_one,
        shifted_old_logprobs,
        wrong_old_logprobs,
        standard_deviation_left_in,
        targets_not_shifted,
        all_tokens_counted,
        lines_seen_as_one,
        positions_not_started_anew,
    ],
)
def test_a_planted_fault_is_noticed(model, groups, fault):
    wrong, _, _ = our_loss(model, groups, tokens=60, change=fault)
    assert abs(wrong - reference_loss(model, groups, PLAIN)) > 1e-4


def test_a_beginning_that_lines_cannot_see_is_noticed(model, groups):
    wrong, _, _ = our_loss(
        model, groups, tokens=60, shared=True, change=nothing_seen_of_what_is_shared
    )
    assert abs(wrong - reference_loss(model, groups, PLAIN)) > 1e-4


def test_an_all_masked_micro_batch_touches_every_parameter_with_weight_zero(model):
    silent = group([attempt(0, [1, 2], [0, 0], reward=1.0), attempt(1, [3, 4], [0, 0], reward=0.0)])
    loss, gradient, _ = our_loss(model, [silent])
    assert loss == 0.0
    assert not np.isnan(gradient.numpy()).any()
    assert not gradient.any()
