"""Log-probabilities of targets, without the logits of a whole sequence at once.

Shapes: B rows, T positions, H hidden size, V vocabulary, N targets. The model's body runs over
[B, T]; only the N hidden states that predict a target meet the output layer, a tile at a time, and
each tile's [n, V] logits are made again in the backward pass instead of being kept. A tile has as
many positions as make `logits_at_once` logits, so memory does not grow with the vocabulary.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Entropy = Literal["off", "watch", "learn"]
"""Not computed; computed without a gradient; part of the loss."""


class TokenScorer(nn.Module):
    """A causal language model seen as a function from tokens to log-probabilities of targets."""

    def __init__(self, language_model: nn.Module, logits_at_once: int):
        super().__init__()
        self.language_model = language_model
        self.logits_at_once = logits_at_once

    def forward(
        self,
        token_ids: Tensor,
        positions: Tensor,
        line_lengths: tuple[int, ...] | None,
        predicts: Tensor,
        targets: Tensor,
        entropy: Entropy,
        shared_length: int = 0,
        most_targets: int = 0,
    ) -> Tensor:
        """[2, N]: raw log p(target), and the entropy of the distribution it was drawn from, in
        nats (zeros when off). `line_lengths` is None for padded rows; `shared_length` is where
        they start in a row that begins with what they share; `most_targets` is N of the rank that has
        most in this turn."""
        body: nn.Module = self.language_model.model  # pyright: ignore[reportAssignmentType]
        known = (
            {}
            if line_lengths is None
            else {
                "line_lengths": line_lengths,
                "shared_length": shared_length,
            }
        )
        hidden = body(
            input_ids=token_ids, position_ids=positions, use_cache=False, **known
        ).last_hidden_state.flatten(0, 1)  # [B·T, H]
        tile = max(1, self.logits_at_once // self.language_model.config.vocab_size)  # pyright: ignore
        picked = hidden[predicts].split(tile) if len(targets) else ()  # of [n, H]
        parts = [
            checkpoint(self._score, some, wanted, entropy, use_reentrant=False)
            for some, wanted in zip(picked, targets.split(tile), strict=False)
        ]
        # Every call of a sharded output layer is a collective, and without a target the graph must
        # still reach every parameter: tiles with weight zero keep ranks in step.
        idle = max(1, -(-most_targets // tile)) - len(parts)
        nothing = [
            checkpoint(self._score, hidden[:1], token_ids[0, :1], "off", use_reentrant=False)
            for _ in range(idle)
        ]
        empty = [(part * 0)[:, :0] for part in nothing]  # pyright: ignore
        return torch.cat([*parts, *empty], dim=1)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def _score(self, hidden: Tensor, targets: Tensor, entropy: Entropy) -> Tensor:
        head: nn.Module = self.language_model.lm_head  # pyright: ignore[reportAssignmentType]
        logits = head(hidden)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # [n, V]
        total = logits.logsumexp(-1)
        logprobs = logits.gather(-1, targets[:, None]).squeeze(-1) - total
        if entropy == "off":
            return torch.stack([logprobs, torch.zeros_like(logprobs)])
        with torch.set_grad_enabled(entropy == "learn" and torch.is_grad_enabled()):
            mean_logit = ((logits - total[:, None]).exp() * logits).sum(-1)
            spread = total - mean_logit
        return torch.stack([logprobs, spread])
