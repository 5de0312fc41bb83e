"""The algorithm, one formula a file; `recipe.py` names the choices, `loss.py` puts them together.

Notation: a group of G rollouts with rewards R_i; tokens t that the policy sampled; π_θ the learner,
μ the engine that sampled, π_old what the ratio is taken to; r_t = π_θ(t) / π_old(t). Shapes: N
sampled tokens of one micro-batch, S lines (sequences); `lines` [N] says which line a token is of.
"""
