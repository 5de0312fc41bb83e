"""`gpu_memory_script.py FOLDER OFFLOAD`: one update on a GPU; prints its peak and what was planned."""

import json
import sys
from pathlib import Path

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from learner.bench import case
from learner.engine import TrainerEngine
from learner.line import Line
from learner.model_config import Layout, Model
from learner.plan import shape as shapes
from learner.plan.cluster import Cluster
from learner.plan.learner_memory import learner_memory
from learner.update import Work, forward_backward

TOKENS = 16_384


def main(folder: Path, offload: str) -> None:
    torch.manual_seed(1)
    Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=65_536,
            hidden_size=1536,
            intermediate_size=4608,
            num_hidden_layers=12,
            num_attention_heads=12,
            num_key_value_heads=4,
            head_dim=128,
            tie_word_embeddings=False,
        )
    ).save_pretrained(folder / "model", safe_serialization=True)
    model = Model.model_validate(
        {
            "path": folder / "model",
            "dtype": "bfloat16",
            "zero_stage": 3,
            "offload": offload,
            "gradient_checkpointing": True,
            "offload_activations": True,
            "sequence_parallel": 1,
            "mlp_tiles": 4,
            "max_tokens": TOKENS,
        }
    )
    layout = Layout(layout="packed", micro_batch_tokens=TOKENS, logits_at_once=67_108_864)
    engine = TrainerEngine(model, layout, case.ADAMW, seed=1)
    torch.cuda.reset_peak_memory_stats()
    long = case.make_lines(65_536)[0]
    times = -(-TOKENS // len(long))
    line = Line(
        key="long",
        token_ids=long.token_ids.repeat(times)[:TOKENS],
        sampled=long.sampled.repeat(times)[:TOKENS],
        weight=1 / TOKENS,
        advantage=0.5,
        old_logprobs=long.old_logprobs.repeat(times)[:TOKENS],
        versions=long.versions.repeat(times)[:TOKENS],
    )
    work = Work(lines=(line,), tokens=TOKENS, has_signal=True)
    forward_backward(engine, work, case.ALGORITHM, layout, current_version=None)
    engine.step(case.ADAMW.lr)
    cluster = Cluster.model_construct(gpus_per_node=1)
    shape = shapes.read(folder / "model")
    planned = learner_memory(model, layout, shape, cluster, ranks=1)
    figures = {
        "peak": torch.cuda.max_memory_allocated(),
        "planned": sum(planned.gpu.values()),
        "parts": planned.gpu,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
