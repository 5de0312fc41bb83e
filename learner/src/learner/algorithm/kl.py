"""Estimators of KL(π_θ ‖ π_ref) at each sampled token, x = log π_ref(t) − log π_θ(t).

    k1 = −x        k2 = x² / 2        k3 = exp(x) − 1 − x

k2 and k3 are added to the loss with the coefficient β. k1's gradient has expectation zero as a loss
term, so it is a penalty in the reward instead: A_t − β·k1_t, without a gradient of its own.
Source: Schulman, Approximating KL Divergence.
"""

from typing import Literal

from torch import Tensor

from learner.algorithm.ratio import log_ratio

Kind = Literal["none", "k1", "k2", "k3"]


def divergence(kind: Kind, logprobs: Tensor, reference: Tensor) -> Tensor:
    """[N] the estimator at each token, with the graph of `logprobs`."""
    x = log_ratio(reference, logprobs)
    if kind == "k1":
        return -x
    if kind == "k2":
        return x.square() / 2
    return x.exp() - 1 - x
