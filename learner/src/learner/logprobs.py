"""Log-probabilities of chosen tokens, without the logits of a whole sequence at once.

Shapes: B rows, T positions, H hidden size, V vocabulary, N chosen positions. The model's body runs
over [B, T]; only the N chosen hidden states meet the output layer, `tile` at a time, and each
tile's [tile, V] logits are made again in the backward pass instead of being kept.
"""

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class TokenScorer(nn.Module):
    """A causal language model seen as a function from tokens to log-probabilities of targets."""

    def __init__(self, language_model: nn.Module, tile: int):
        super().__init__()
        self.language_model = language_model
        self.tile = tile

    def forward(
        self, token_ids: Tensor, attention_mask: Tensor, targets: Tensor, chosen: Tensor
    ) -> Tensor:
        """[N] raw log p(target) in row order where `chosen` [B, T-1] is true."""
        body: nn.Module = self.language_model.model  # pyright: ignore[reportAssignmentType]
        hidden = body(
            input_ids=token_ids, attention_mask=attention_mask, use_cache=False
        ).last_hidden_state
        picked, wanted = hidden[:, :-1][chosen], targets[chosen]  # [N, H], [N]
        if not len(wanted):
            # Touches every parameter with weight zero, so that ranks stay in step.
            return (hidden.sum() + self._score(hidden[:1, 0], targets[:1, 0]).sum()) * picked[:, 0]
        parts = [
            checkpoint(self._score, picked[i : i + self.tile], wanted[i : i + self.tile],
                       use_reentrant=False)
            for i in range(0, len(wanted), self.tile)
        ]  # fmt: skip
        return torch.cat(parts)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def _score(self, hidden: Tensor, targets: Tensor) -> Tensor:
        head: nn.Module = self.language_model.lm_head  # pyright: ignore[reportAssignmentType]
        logits = head(hidden)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # [n, V]
        return logits.gather(-1, targets[:, None]).squeeze(-1) - logits.logsumexp(-1)
