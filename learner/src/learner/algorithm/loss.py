"""The loss of one micro-batch: every choice of the recipe in one sum.

    L = Σ_t w_t · (c_t · L_t + β · KL_t − η · H_t)

w_t is the aggregation's weight, c_t the correction's, L_t the surrogate. All shapes are [N].
"""

from dataclasses import dataclass

from torch import Tensor

from learner.algorithm import correction, kl
from learner.algorithm.ratio import log_ratio
from learner.algorithm.recipe import Algorithm
from learner.algorithm.surrogate import surrogate


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """What is known of the sampled tokens of a micro-batch; no graph in any of it."""

    lines: Tensor  # [N] long
    weights: Tensor  # [N]
    advantages: Tensor  # [N]
    engine: Tensor  # [N] log μ
    reference: Tensor | None  # [N] log π_ref of the initial model, where KL is taken to it


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """A micro-batch's share of the loss; the rest holds no graph."""

    loss: Tensor
    log_ratio: Tensor  # [N] log π_θ − log μ
    clipped_low: Tensor  # [N] bool
    clipped_high: Tensor  # [N] bool
    correction: Tensor  # [N]
    kl: Tensor  # [N]; empty without KL


def share(algorithm: Algorithm, logprobs: Tensor, entropy: Tensor, tokens: Tokens) -> Share:
    """`logprobs` and, with a bonus, `entropy` carry the graph."""
    to_engine = log_ratio(logprobs, tokens.engine)
    corrected = algorithm.correction != "none"
    old = logprobs.detach() if corrected else tokens.engine
    advantages = tokens.advantages.to(to_engine)
    divergence = to_engine.new_zeros(0)
    if algorithm.kl != "none":
        reference = tokens.engine if tokens.reference is None else tokens.reference
        divergence = kl.divergence(algorithm.kl, logprobs, reference)
    if algorithm.kl == "k1":
        advantages = advantages - algorithm.kl_coefficient * divergence.detach()
    made = surrogate(
        algorithm.surrogate,
        logprobs=logprobs.to(to_engine),
        log_ratio=log_ratio(logprobs, old),
        advantages=advantages,
        lines=tokens.lines,
        clip_low=algorithm.clip_low,
        clip_high=algorithm.clip_high,
    )
    factor = correction.weights(
        algorithm.correction,
        to_engine,
        tokens.lines,
        algorithm.correction_low,
        algorithm.correction_high,
    )
    per_token = factor * made.per_token
    if algorithm.kl in ("k2", "k3"):
        per_token = per_token + algorithm.kl_coefficient * divergence
    if algorithm.entropy_coefficient:
        per_token = per_token - algorithm.entropy_coefficient * entropy
    return Share(
        loss=(tokens.weights.to(per_token) * per_token).sum(),
        log_ratio=to_engine.detach(),
        clipped_low=made.clipped_low,
        clipped_high=made.clipped_high,
        correction=factor,
        kl=divergence.detach(),
    )
