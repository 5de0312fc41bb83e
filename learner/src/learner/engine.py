"""The trainer engine: model, AdamW and DeepSpeed, built from the configuration alone.

torch's own AdamW is handed to DeepSpeed, so the update is the textbook one; DeepSpeed's C++ ops were
built in set-up, so none is compiled in the middle of a run. `managed_gradient_accumulation` is off and backward never divides by accumulation
steps: the loss's denominator is global already and micro-batch counts vary from update to update.
"""

import math
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from envfarm.errors import CheckpointError, ConfigError, LearnerError
from torch import Tensor
from torch._C._distributed_c10d import HashStore

from learner import settings
from learner.batch import Batch, MicroBatch
from learner.config import Config
from learner.logprobs import TokenScorer
from learner.loss import LossParts, token_mean

# DeepSpeed's logger keeps the stdout that it finds at import; ours is for results.
with redirect_stdout(sys.stderr):
    import deepspeed
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
    from transformers.utils.logging import disable_progress_bar


def deepspeed_config(config: Config) -> dict[str, Any]:
    """Everything DeepSpeed is told; no scaling of ours is left to its defaults."""
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,
        "gradient_clipping": config.optimizer.grad_norm,
        "zero_optimization": {"stage": config.model.zero_stage},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
        "wall_clock_breakdown": False,
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class PassResult:
    """Forward and backward of one update; the optimizer has not moved yet."""

    loss: float
    clip_share: float
    mismatch_gap: float
    """Largest |engine − learner| on tokens of the current version; 0 when there were none."""


class TrainerEngine:
    """One process's share of training. Not thread-safe."""

    def __init__(self, config: Config):
        self.config = config
        torch.manual_seed(config.seed)
        self.model = load_model(config.model.path)
        optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=config.optimizer.lr,
            betas=config.optimizer.betas,
            eps=config.optimizer.eps,
            weight_decay=config.optimizer.weight_decay,
        )
        _join_group_of_one()
        self._deepspeed: Any = deepspeed.initialize(
            model=TokenScorer(self.model, config.batch.logprob_tile),
            optimizer=optimizer,  # pyright: ignore[reportArgumentType]
            config=deepspeed_config(config),
        )[0]
        self._deepspeed.eval()  # GRPO trains the policy that sampled: no dropout

    @property
    def vocabulary(self) -> int:
        return self.model.get_input_embeddings().num_embeddings  # pyright: ignore[reportReturnType, reportAttributeAccessIssue]

    def forward_backward(self, batch: Batch, *, current_version: int | None) -> PassResult:
        """Gradients of the whole update. `current_version` is the number whose weights these are
        exactly, or None when no engine has them."""
        parts = []
        gap = 0.0
        for micro_batch in batch.micro_batches:
            logprobs = self.score(micro_batch)
            part = self._loss(micro_batch, logprobs, batch.tokens)
            # DeepSpeed averages over data-parallel ranks; the denominator is the global sum.
            self._deepspeed.backward(part.loss * self._deepspeed.dp_world_size, scale_wrt_gas=False)
            parts.append(part)
            gap = max(gap, _gap(micro_batch, logprobs.detach(), current_version))
        return PassResult(
            loss=sum(float(part.loss.detach()) for part in parts),
            clip_share=sum(part.clipped for part in parts) / max(batch.tokens, 1),
            mismatch_gap=gap,
        )

    def score(self, micro_batch: MicroBatch) -> Tensor:
        """[N] log-probabilities of the sampled tokens, with a graph."""
        return self._deepspeed(
            micro_batch.token_ids,
            micro_batch.attention_mask,
            micro_batch.targets,
            micro_batch.sampled,
        )

    def step(self) -> float:
        """Clip, move the optimizer, clear the gradients; returns the norm before clipping."""
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = float(torch.nn.utils.get_total_norm(gradients))
        if not math.isfinite(norm):
            raise LearnerError(
                f"the gradient norm is {norm}: the optimizer was not moved",
                hint="look at the last batch's log-probabilities and at the learning rate",
            )
        self._deepspeed.step()
        return norm

    def drop_gradients(self) -> None:
        self._deepspeed.zero_grad()

    @torch.no_grad()
    def probe(self, token_ids: Sequence[int]) -> list[float]:
        """[T-1] log p(token t+1 | tokens up to t) of one sequence, in float32."""
        ids = torch.tensor([list(token_ids)])
        every = torch.ones((1, ids.shape[1] - 1), dtype=torch.bool)
        return self._deepspeed(ids, torch.ones_like(ids), ids[:, 1:], every).tolist()

    def save(self, folder: Path) -> None:
        """DeepSpeed's own checkpoint under `folder`/state."""
        self._deepspeed.save_checkpoint(str(folder), tag="state", save_latest=False)

    def load(self, folder: Path) -> None:
        """Load what `save` wrote; the caller has verified the files' digests."""
        path, _ = self._deepspeed.load_checkpoint(str(folder), tag="state")
        if path is None:
            raise CheckpointError(f"DeepSpeed found no checkpoint in {folder}")

    def _loss(self, micro_batch: MicroBatch, logprobs: Tensor, update_tokens: int) -> LossParts:
        return token_mean(
            logprobs,
            micro_batch.old_logprobs[micro_batch.sampled],
            micro_batch.advantages[micro_batch.sampled],
            clip_low=self.config.loss.clip_low,
            clip_high=self.config.loss.clip_high,
            update_tokens=update_tokens,
        )


def load_model(path: Path) -> PreTrainedModel:
    """A causal language model in float32 from a local folder; ConfigError when it cannot be."""
    disable_progress_bar()
    try:
        shape = AutoConfig.from_pretrained(path, local_files_only=True)
        return AutoModelForCausalLM.from_pretrained(
            path,
            config=shape,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=True,
            attn_implementation="sdpa",
        )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"model.path: cannot load a model from {path}: {str(error).splitlines()[0]}"
        ) from error


def _gap(micro_batch: MicroBatch, logprobs: Tensor, current_version: int | None) -> float:
    if current_version is None:
        return 0.0
    current = micro_batch.versions[micro_batch.sampled] == current_version
    gaps = (logprobs - micro_batch.old_logprobs[micro_batch.sampled]).abs()[current]
    return float(gaps.max()) if gaps.numel() else 0.0


def _join_group_of_one() -> None:
    """A process group without a port: DeepSpeed takes over the one that torch has."""
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    settings.declare_local_rank()
    settings.find_built_ops()
    # One process shares memory with nobody.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # pyright: ignore[reportAttributeAccessIssue]
    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False)
