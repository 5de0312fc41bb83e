"""The whole path from groups to loss against an independent one, and faults that it must notice.

In float64 on a two-layer model, with old log-probabilities that differ from the model's.
"""

import random

import numpy as np
import pytest
import torch
from transformers import AttentionInterface, Qwen3Config, Qwen3ForCausalLM

from learner import attention
from learner.batch import make_batch
from learner.group import TakenGroup
from learner.logprobs import TokenScorer
from learner.loss import surrogate
from learner.micro_batch import MicroBatch, split

from . import reference_grpo
from .samples import attempt, group

CLIP = (0.2, 0.28)
VOCABULARY = 61
AttentionInterface.register(attention.NAME, attention.attend)


@pytest.fixture(scope="module")
def model() -> Qwen3ForCausalLM:
    torch.manual_seed(3)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        tie_word_embeddings=False,
        initializer_range=0.3,
    )
    return Qwen3ForCausalLM(config).double()


@pytest.fixture(scope="module")
def groups() -> list[TakenGroup]:
    source = random.Random(11)

    def rollout(slot: int, group_id: str, reward: float):
        length = source.randint(5, 23)
        ids = [source.randrange(VOCABULARY) for _ in range(length)]
        mask = [0, *(source.randint(0, 1) for _ in range(length - 1))]
        old = [-source.uniform(2.0, 7.0) * m for m in mask]
        return attempt(slot, ids, mask, reward=reward, logprobs=old, group_id=group_id)

    rewards = {"a": [1, 0, 0, 1], "b": [0, 0, 1, 0], "flat": [1, 1, 1, 1]}
    return [
        group([rollout(i, name, r) for i, r in enumerate(values)], name)
        for name, values in rewards.items()
    ]


def reference_loss(model: Qwen3ForCausalLM, groups: list[TakenGroup]) -> float:
    """Each rollout alone and unpadded; full logits."""
    plain = []
    model.set_attn_implementation("sdpa")
    for taken in groups:
        rollouts = []
        for a in taken.attempts:
            ids = torch.tensor([a.token_ids.tolist()])
            with torch.no_grad():
                table = model(ids).logits[0].log_softmax(-1)
            new = [0.0] + [float(table[t - 1, ids[0, t]]) for t in range(1, ids.shape[1])]
            rollouts.append(
                {"reward": a.reward, "mask": a.loss_mask, "new": new, "old": a.logprobs.tolist()}
            )
        plain.append(rollouts)
    return reference_grpo.loss(plain, *CLIP)


def our_loss(model, groups, *, tokens=10_000, tile=7, packed=True, change=lambda m, n: m):
    """Loss and flat gradient by the learner's code; `change` plants a fault."""
    model.zero_grad()
    model.set_attn_implementation(attention.NAME)
    scorer = TokenScorer(model, tile * VOCABULARY)
    batch = make_batch(groups)
    ((*parts,),) = split(batch.lines, tokens=tokens, packed=packed)
    total = 0.0
    for part in parts:
        m = change(part, batch.tokens)
        lengths = m.lengths if m.packed else None
        logprobs = scorer(m.token_ids, m.positions, lengths, m.predicts, m.targets, "off")[0]
        per_token, _ = surrogate(logprobs, m.old_logprobs, m.advantages, *CLIP)
        share = (per_token * m.weights).sum()
        share.backward()
        total += float(share.detach())
    gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
    return total, gradient, len(parts)


def test_loss_equals_the_independent_one(model, groups):
    ours, _, _ = our_loss(model, groups)
    assert ours == pytest.approx(reference_loss(model, groups), abs=1e-10)


@pytest.mark.parametrize("tokens", [24, 60, 110])
@pytest.mark.parametrize("tile", [1, 5, 1000])
@pytest.mark.parametrize("packed", [True, False])
def test_micro_batches_tiles_and_layout_change_nothing(
    model, groups, tokens: int, tile: int, packed: bool
):
    whole, gradient, _ = our_loss(model, groups)
    other, parts, count = our_loss(model, groups, tokens=tokens, tile=tile, packed=packed)
    assert count > 1
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
        above = reference_loss(model, groups)
        weight.view(-1)[index] -= 2 * step
        below = reference_loss(model, groups)
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
    assert abs(wrong - reference_loss(model, groups)) > 1e-4


def test_an_all_masked_micro_batch_touches_every_parameter_with_weight_zero(model):
    silent = group([attempt(0, [1, 2], [0, 0], reward=1.0), attempt(1, [3, 4], [0, 0], reward=0.0)])
    loss, gradient, _ = our_loss(model, [silent])
    assert loss == 0.0
    assert not np.isnan(gradient.numpy()).any()
    assert not gradient.any()
