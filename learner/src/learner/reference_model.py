"""The initial policy, frozen, where the recipe takes KL to it. Every rank holds the whole of it."""

import torch
from torch import Tensor

from learner.engine import load_model
from learner.logprobs import TokenScorer
from learner.micro_batch import MicroBatch
from learner.model_config import Layout, Model


class ReferenceModel:
    def __init__(self, model: Model, layout: Layout, device: torch.device):
        whole = load_model(model, layout).to(device)  # pyright: ignore[reportArgumentType]
        whole.requires_grad_(False)
        self._scorer = TokenScorer(whole, layout.logits_at_once).eval()
        self._device = device

    @torch.no_grad()
    def score(self, part: MicroBatch) -> Tensor:
        """[N] log-probabilities of the targets under the initial weights."""
        return self._scorer(
            part.token_ids.to(self._device),
            part.positions.to(self._device),
            part.lengths if part.packed else None,
            part.predicts.to(self._device),
            part.targets.to(self._device),
            "off",
            part.shared,
        )[0]
