"""TRL's GRPO loss, forward and backward, on the lines that the learner is measured with.

Run by an interpreter that has TRL: `PYTHON trl_loss.py MODEL LINES.json ROUNDS`. It imports nothing
of ours. Lines: tokens, where sampling begins, advantage, the log-probabilities that sampled. Prints
TRL's version, the seconds of each round and the loss as JSON, and writes the gradients of all parameters
to gradients.safetensors beside the lines.
"""

import json
import sys
import time
from pathlib import Path

import torch
import trl  # pyright: ignore[reportMissingImports]
from datasets import Dataset  # pyright: ignore[reportMissingImports]
from safetensors.torch import save_file
from tokenizers import Tokenizer, models
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportMissingImports]


def main(model: str, lines_file: str, rounds: int) -> None:
    lines = json.loads(Path(lines_file).read_text())
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    words = {f"w{i}": i for i in range(policy.config.vocab_size)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="w1")),
        pad_token="w0",
        eos_token="w1",
    )
    trainer = GRPOTrainer(
        model=policy,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=GRPOConfig(
            output_dir=str(Path(lines_file).parent / "trl"),
            per_device_train_batch_size=len(lines),
            num_generations=len(lines),
            beta=0.0,
            loss_type="dapo",
            scale_rewards="none",
            use_cpu=not torch.cuda.is_available(),
            bf16=False,
            gradient_checkpointing=False,
            report_to=[],
        ),
        train_dataset=Dataset.from_dict({"prompt": ["w2"] * len(lines)}),
        processing_class=tokenizer,
    )
    inputs = batch(lines)

    def update() -> float:
        started = time.monotonic()
        trainer.compute_loss(trainer.model, inputs).backward()
        seconds = time.monotonic() - started
        trainer.model.zero_grad()
        return seconds

    # A window of one micro-batch: TRL's denominator is then the batch's tokens, as the learner's.
    trainer.current_gradient_accumulation_steps = 1
    loss = trainer.compute_loss(trainer.model, inputs)
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in trainer.model.named_parameters()}
    save_file(gradients, Path(lines_file).parent / "gradients.safetensors")
    trainer.model.zero_grad()
    seconds = [update() for _ in range(rounds)]
    print(json.dumps({"version": trl.__version__, "loss": float(loss), "seconds": seconds}))


def batch(lines: list[dict]) -> dict[str, torch.Tensor]:
    """Prompts padded on the left, completions on the right, as TRL makes them."""
    prompts = [line["ids"][: line["begin"]] for line in lines]
    completions = [line["ids"][line["begin"] :] for line in lines]
    left, right = max(map(len, prompts)), max(map(len, completions))
    return {
        "prompt_ids": torch.tensor([[0] * (left - len(p)) + p for p in prompts]),
        "prompt_mask": torch.tensor([[0] * (left - len(p)) + [1] * len(p) for p in prompts]),
        "completion_ids": torch.tensor([c + [0] * (right - len(c)) for c in completions]),
        "completion_mask": torch.tensor(
            [[1] * len(c) + [0] * (right - len(c)) for c in completions]
        ),
        "old_per_token_logps": torch.tensor(
            [line["old"] + [0.0] * (right - len(line["old"])) for line in lines]
        ),
        "advantages": torch.tensor([line["advantage"] for line in lines]),
        "num_items_in_batch": torch.tensor(sum(map(len, completions))),
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
