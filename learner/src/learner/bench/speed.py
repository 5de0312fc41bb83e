"""Tokens a second: the learner's update, the bare model on the same packed row, interleaved."""

import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from learner.bench import case
from learner.engine import TrainerEngine, load_model
from learner.micro_batch import split
from learner.update import Work, forward_backward


def measure(model: Path, rounds: int) -> dict[str, Any]:
    """Median of `rounds` pairs; the learner's update without its optimizer step, as the bare one."""
    lines = tuple(case.make_lines())
    work = Work(lines=lines, tokens=sum(int(x.sampled.sum()) for x in lines), has_signal=True)
    engine = TrainerEngine(case.settings(model), case.LAYOUT, case.ADAMW, seed=1)
    bare = load_model(case.settings(model), case.LAYOUT)
    ((part,),) = split(lines, tokens=case.LAYOUT.micro_batch_tokens, packed=True)

    def learner() -> None:
        forward_backward(engine, work, case.ALGORITHM, case.LAYOUT, current_version=0)
        for parameter in engine.model.parameters():
            parameter.grad = None

    def plain() -> None:
        hidden = bare.model(  # pyright: ignore[reportCallIssue]
            input_ids=part.token_ids,
            position_ids=part.positions,
            use_cache=False,
            line_lengths=part.lengths,
        ).last_hidden_state[0]
        logits = bare.lm_head(hidden[part.predicts])  # pyright: ignore[reportCallIssue]
        cross_entropy(logits, part.targets).backward()
        for parameter in bare.parameters():
            parameter.grad = None

    ours, theirs = [], []
    learner()
    plain()
    for _ in range(rounds):
        ours.append(_seconds(learner))
        theirs.append(_seconds(plain))
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    return {
        "parameters": sum(p.numel() for p in bare.parameters()),
        "tokens": part.tokens,
        "sampled_tokens": work.tokens,
        "rounds": rounds,
        "learner_tokens_per_s": part.tokens / statistics.median(ours),
        "bare_tokens_per_s": part.tokens / statistics.median(theirs),
        "ratio": statistics.median(ratios),
        "padding_waste": part.padding / part.token_ids.numel(),
        "threads": torch.get_num_threads(),
    }


def _seconds(action) -> float:
    started = time.monotonic()
    action()
    return time.monotonic() - started
