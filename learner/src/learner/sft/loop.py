"""The supervised loop: order → micro-batches → masked cross-entropy → step → checkpoint.

    L = −(1 / M) Σ_t m_t · log π_θ(t)

m marks the tokens that the policy sampled, M is their number in the whole step: over conversations,
micro-batches and ranks, so that splitting a step changes nothing.
"""

import json
import threading
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from envfarm.errors import ConfigError

from learner import checkpoint_folder, process_group, served_folder
from learner.engine import TrainerEngine
from learner.files import write_durably
from learner.line import Line
from learner.micro_batch import MicroBatch, split
from learner.sft import conversations, order
from learner.sft.config import Config
from learner.sft.conversations import Conversation, Corpus
from learner.sft.progress import Progress

SUMMARY = "summary.json"


def run(config: Config, stop: threading.Event) -> Path | None:
    """Train to the end and write the model; its summary's path, None when told to stop first."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    started = time.monotonic()
    folder = config.run.dir
    engine = TrainerEngine(config.model, config.batch, config.optimizer, config.seed)
    corpus = conversations.read(
        config.data, max_tokens=config.model.max_tokens, vocabulary=engine.vocabulary
    )
    origin = served_folder.weights_hash(config.model.path)
    recipe_hash = config.recipe_hash(corpus.data_hash, origin)
    leads = process_group.rank() == 0
    if leads:
        _write_config(config, recipe_hash)
    steps = config.run.steps
    if steps is None:
        assert config.run.epochs is not None
        steps = order.steps(corpus.folders, config.batch.conversations, config.run.epochs)
    found = checkpoint_folder.load(folder / "checkpoints", engine, recipe_hash=recipe_hash)
    first = 0 if found is None else found[1]["step"]
    progress = None
    if leads:
        progress = Progress(
            folder / "metrics.jsonl",
            first=first,
            steps=steps,
            report_every=config.run.report_every,
        )
    batches = order.batches(corpus.folders, config.seed, config.batch.conversations, first)
    for number, batch in enumerate(islice(batches, steps - first), first):
        rate = config.schedule.rate(config.optimizer.lr, number, steps)
        facts = _step(engine, config, batch, rate)
        if progress is not None:
            progress.step({"step": number + 1, "lr": rate, **facts})
        ends = process_group.highest(stop.is_set()) > 0
        if ends or number + 1 == steps or (number + 1) % config.run.checkpoint_every == 0:
            checkpoint_folder.save(
                folder / "checkpoints",
                engine,
                facts={"recipe_hash": recipe_hash, "step": number + 1},
                keep=config.run.keep_checkpoints,
            )
        if ends and number + 1 < steps:
            return None
    weights = engine.weights()
    if not leads:
        return None
    weights_hash = served_folder.write(folder / "model", weights, config.model.path)
    return _write_summary(
        folder,
        corpus,
        {
            "steps": steps,
            "epochs": steps * config.batch.conversations / order.epoch_size(corpus.folders),
            "recipe_hash": recipe_hash,
            "origin_weights_hash": origin,
            "weights_hash": weights_hash,
            "seconds": time.monotonic() - started,
        },
    )


def _step(
    engine: TrainerEngine, config: Config, batch: list[Conversation], rate: float
) -> dict[str, Any]:
    started = time.monotonic()
    targets = sum(int(one.sampled.sum()) for one in batch)
    lines = [_line(one, index, 1.0 / targets) for index, one in enumerate(batch)]
    layout = config.batch
    parts = split(
        lines,
        tokens=layout.micro_batch_tokens,
        packed=layout.layout != "padded",
        shared=layout.layout == "shared",
        ranks=engine.shares,
        sharing=engine.settings.sequence_parallel,
    )
    loss = sum(_backward(engine, part) for part in parts[engine.share])
    norm = engine.step(rate)
    tokens = sum(map(len, lines))
    positions = sum(part.token_ids.numel() for share in parts for part in share)
    return {
        "loss": process_group.total(loss if engine.speaks else 0.0),
        "grad_norm": norm,
        "tokens": tokens,
        "targets": targets,
        "padding_share": 1.0 - tokens / positions,
        "tokens_per_second": tokens / (time.monotonic() - started),
    }


def _backward(engine: TrainerEngine, part: MicroBatch) -> float:
    scores = engine.score(part)
    loss = -(scores[0] * part.weights.to(scores)).sum()
    engine.backward(loss)
    return float(loss.detach())


def _line(conversation: Conversation, index: int, weight: float) -> Line:
    nothing = np.zeros(len(conversation.token_ids))
    return Line(
        key=f"{conversation.rollout_id}#{index:06d}",
        token_ids=conversation.token_ids,
        sampled=conversation.sampled,
        weight=weight,
        advantage=0.0,
        old_logprobs=nothing.astype(np.float32),
        versions=nothing.astype(np.int64),
    )


def _write_config(config: Config, recipe_hash: str) -> None:
    path = config.run.dir / "config.json"
    resolved = {"recipe_hash": recipe_hash, "config": config.model_dump(mode="json")}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, json.dumps(resolved, indent=1, sort_keys=True).encode())
    except OSError as error:
        raise ConfigError(f"run.dir: cannot write {path}: {error.strerror}") from error


def _write_summary(folder: Path, corpus: Corpus, facts: dict[str, Any]) -> Path:
    """What was learned from and what came out; figures of the last tenth of the steps."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    last = lines[-max(1, len(lines) // 10) :]
    summary = {
        **facts,
        "conversations": corpus.conversations,
        "left_out": corpus.left_out,
        "rewards": _rewards(corpus),
        "data_hash": corpus.data_hash,
        "renderer_hash": corpus.renderer_hash,
        "tokens": sum(line["tokens"] for line in lines),
        "targets": sum(line["targets"] for line in lines),
        "first_loss": lines[0]["loss"],
        "last_loss": sum(line["loss"] for line in last) / len(last),
        "tokens_per_second": sum(line["tokens"] for line in lines)
        / sum(line["tokens"] / line["tokens_per_second"] for line in lines),
        "padding_share": sum(line["padding_share"] for line in lines) / len(lines),
        "model": str((folder / "model").resolve()),
    }
    path = folder / SUMMARY
    write_durably(path, json.dumps(summary, indent=1, sort_keys=True).encode())
    return path


def _rewards(corpus: Corpus) -> dict[str, int]:
    """Conversations by reward."""
    found: dict[str, int] = {}
    for folder in corpus.folders:
        for one in folder.conversations:
            found[f"{one.reward:g}"] = found.get(f"{one.reward:g}", 0) + 1
    return dict(sorted(found.items()))
