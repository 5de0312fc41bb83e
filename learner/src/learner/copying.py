"""What a pretrained model brings along and random weights do not: it can copy what stands before.

Lines are a random string of digits and capital letters, up to seven of them in between, and the
string again; the loss is the cross-entropy of the second string but for its first token. Attention
that finds the earlier place and copies what follows it forms within some 200 steps, and is what
lets a tiny policy learn from a few thousand conversations to repeat an id. No domain's text is in it.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import Qwen3ForCausalLM

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LENGTH = 12
"""Tokens of the string."""
LONGEST_GAP = 7
LINES = 32
"""A step."""
LEARNING_RATE = 2e-3
WARMUP_STEPS = 20


def teach_copying(model: Qwen3ForCausalLM, alphabet: list[int], steps: int, seed: int) -> float:
    """`steps` of AdamW on lines of the token ids in `alphabet`; the last step's loss, in nats."""
    if not steps:
        return float("nan")
    source = torch.Generator().manual_seed(seed)
    tokens = torch.tensor(alphabet)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.99), weight_decay=0.01
    )
    loss = torch.zeros(())
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * min(1.0, (step + 1) / WARMUP_STEPS)
        ids, repeated = _lines(tokens, source)
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
        chosen = repeated[:, 1:]
        loss = cross_entropy(model.lm_head(hidden[chosen]), ids[:, 1:][chosen])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return float(loss.detach())


def _lines(tokens: Tensor, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """[LINES, T] ids, and where the second string stands, its first token left out."""
    width = 2 * LENGTH + LONGEST_GAP
    ids = tokens[torch.randint(len(tokens), (LINES, width), generator=source)]
    repeated = torch.zeros(LINES, width, dtype=torch.bool)
    gaps = torch.randint(LONGEST_GAP + 1, (LINES,), generator=source).tolist()
    for line, gap in enumerate(gaps):
        start = LENGTH + gap
        ids[line, start : start + LENGTH] = ids[line, :LENGTH]
        repeated[line, start + 1 : start + LENGTH] = True
    return ids, repeated
