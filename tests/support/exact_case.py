"""One small case on which every way to compute an update must agree: a model and some groups.

Old log-probabilities differ from the model's, lengths differ, lines share a beginning, one group has
equal rewards, one rollout is truncated and one has no sampled token.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import rms_norm
from transformers import PreTrainedModel, Qwen3_5TextConfig, Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM, Qwen3RMSNorm
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForCausalLM

from learner.group import Attempt, TakenGroup
from tests.support import reference_grpo
from tests.support.learner_samples import attempt, group

VOCABULARY = 61
_SIZES: dict[str, Any] = dict(
    vocab_size=VOCABULARY,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=16,
    tie_word_embeddings=False,
    initializer_range=0.3,
    pad_token_id=0,
)


def qwen3(seed: int = 3, vocabulary: int = VOCABULARY) -> PreTrainedModel:
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(Qwen3Config(**{**_SIZES, "vocab_size": vocabulary}))


def hybrid(seed: int = 3) -> PreTrainedModel:
    """A layer of linear attention and one of full attention."""
    torch.manual_seed(seed)
    config = Qwen3_5TextConfig(
        **_SIZES,
        layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        linear_conv_kernel_dim=4,
    )
    return Qwen3_5ForCausalLM(config)


def norm_in_its_own_precision(norm: Qwen3RMSNorm, hidden: Tensor) -> Tensor:
    """What `Qwen3RMSNorm.forward` should be for float64: its own goes through float32."""
    return rms_norm(hidden, norm.weight.shape, norm.weight, norm.variance_epsilon)


def save(model: PreTrainedModel, folder: Path) -> Path:
    model.save_pretrained(folder, safe_serialization=True)
    return folder


def groups() -> list[TakenGroup]:
    source = random.Random(11)

    def rollout(slot: int, group_id: str, reward: float) -> Attempt:
        length = source.randint(5, 23)
        ids = [7, 3, 9, *(source.randrange(VOCABULARY) for _ in range(length - 3))]
        mask = [0, *(source.randint(0, 1) for _ in range(length - 1))]
        if (group_id, slot) == ("flat", 3):
            mask = [0] * length
        old = [-source.uniform(2.0, 7.0) * m for m in mask]
        cut = (group_id, slot) == ("a", 2)
        return attempt(
            slot, ids, mask, reward=reward, logprobs=old, group_id=group_id, truncated=cut
        )

    rewards = {"a": [1, 0, 0, 1], "b": [0, 0, 1, 0], "flat": [1, 1, 1, 1]}
    return [
        group([rollout(i, name, r) for i, r in enumerate(values)], name)
        for name, values in rewards.items()
    ]


def reference_loss(
    model: PreTrainedModel,
    taken: Sequence[TakenGroup],
    recipe: dict[str, Any],
    initial: PreTrainedModel | None = None,
) -> float:
    """By the independent reference: each rollout alone and unpadded, full logits."""
    plain = []
    for one in taken:
        rollouts = []
        for a in one.attempts:
            new, entropy = _alone(model, a)
            rollouts.append(
                {
                    "reward": a.reward,
                    "truncated": a.truncated,
                    "mask": a.loss_mask.tolist(),
                    "new": new,
                    "old": a.logprobs.tolist(),
                    "initial": new if initial is None else _alone(initial, a)[0],
                    "entropy": entropy,
                }
            )
        plain.append(rollouts)
    return reference_grpo.loss(plain, recipe)


@torch.no_grad()
def _alone(model: PreTrainedModel, a: Attempt) -> tuple[list[float], list[float]]:
    """[T] log-probabilities of the tokens and entropies of what predicted them."""
    model.set_attn_implementation("sdpa")
    ids = torch.tensor([a.token_ids.tolist()])
    table = model(ids).logits[0].log_softmax(-1)
    spread = -(table.exp() * table).sum(-1)
    steps = range(1, ids.shape[1])
    new = [0.0] + [float(table[t - 1, ids[0, t]]) for t in steps]
    return new, [0.0] + [float(spread[t - 1]) for t in steps]
