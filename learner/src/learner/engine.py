"""The trainer engine: model, AdamW and DeepSpeed, built from the configuration alone.

torch's own AdamW is handed to DeepSpeed, so the update is the textbook one; DeepSpeed's C++ ops were
built in set-up, so none is compiled in the middle of a run. `managed_gradient_accumulation` is off and backward never divides by accumulation
steps: the loss's denominator is global already and micro-batch counts vary from update to update.
"""

import math
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch
from envfarm.errors import CheckpointError, ConfigError, LearnerError
from torch import Tensor

from learner import architectures, attention, layer_memory, process_group
from learner.line import Line
from learner.logprobs import Entropy, TokenScorer
from learner.micro_batch import MicroBatch, split
from learner.model_config import Layout, Model, Optimizer

# DeepSpeed's logger keeps the stdout that it finds at import; ours is for results.
with redirect_stdout(sys.stderr):
    import deepspeed
    from transformers import (
        AttentionInterface,
        AutoConfig,
        AutoModelForCausalLM,
        PretrainedConfig,
        PreTrainedModel,
    )
    from transformers.models.qwen3_5 import modeling_qwen3_5
    from transformers.utils.logging import disable_progress_bar

    from learner import sequence

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}


def deepspeed_config(model: Model, optimizer: Optimizer) -> dict[str, Any]:
    """Everything DeepSpeed is told; no scaling of ours is left to its defaults."""
    zero: dict[str, Any] = {"stage": model.zero_stage}
    if model.offload in ("optimizer", "all"):
        zero["offload_optimizer"] = {"device": "cpu"}
    if model.offload == "all":
        zero["offload_param"] = {"device": "cpu"}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,
        # Stage 0 reduces and clips in a hook of ours, in the gradients' own precision.
        "gradient_clipping": optimizer.grad_norm if model.zero_stage else 0.0,
        "zero_optimization": zero,
        "bf16": {"enabled": model.dtype == "bfloat16"},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
        "wall_clock_breakdown": False,
    }


class TrainerEngine:
    """One process's share of training. Not thread-safe; every rank calls the same methods in the
    same order."""

    def __init__(self, model: Model, layout: Layout, optimizer: Optimizer, seed: int):
        process_group.join()
        torch.manual_seed(seed)
        self.settings = model
        self._sharing = _sequence_group(model)
        self.model = load_model(model, layout)
        if self._sharing is not None:
            _share_rows(self.model, self._sharing)
        self._optimizer_settings = optimizer
        self._norm = math.nan
        self._adamw = torch.optim.AdamW(
            self.model.parameters(),
            lr=optimizer.lr,
            betas=optimizer.betas,
            eps=optimizer.eps,
            weight_decay=optimizer.weight_decay,
        )
        if model.zero_stage == 0:
            self._adamw.register_step_pre_hook(self._reduce_and_clip)
        self._deepspeed: Any = deepspeed.initialize(
            model=TokenScorer(self.model, layout.logits_at_once),
            optimizer=self._adamw,  # pyright: ignore[reportArgumentType]
            config=deepspeed_config(model, optimizer),
        )[0]
        if model.zero_stage == 0:
            self._deepspeed.enable_backward_allreduce = False  # the hook does it, in any dtype
        # Gradient checkpointing works in training mode only; without dropout the modes agree.
        self._deepspeed.train()

    @property
    def vocabulary(self) -> int:
        return self.model.config.vocab_size

    @property
    def device(self) -> torch.device:
        return torch.device(self._deepspeed.device)

    @property
    def shares(self) -> int:
        """Into how many shares an update's micro-batches are split."""
        return process_group.ranks() // self.settings.sequence_parallel

    @property
    def share(self) -> int:
        """Which of the shares this rank works on, with those it shares rows with."""
        return process_group.rank() // self.settings.sequence_parallel

    @property
    def speaks(self) -> bool:
        """True for one rank of those that share rows: all of them have the same scores."""
        return process_group.rank() % self.settings.sequence_parallel == 0

    def score(self, micro_batch: MicroBatch, entropy: Entropy = "off") -> Tensor:
        """[2, N]: log-probabilities of the targets, with a graph, and entropies."""
        if self._sharing is None:
            return self._score(micro_batch, entropy)
        own, mine = self._sharing.own(micro_batch)
        return self._sharing.joined(self._score(own, entropy), mine, len(micro_batch.targets))

    def _score(self, micro_batch: MicroBatch, entropy: Entropy) -> Tensor:
        device = self._deepspeed.device
        return self._deepspeed(
            micro_batch.token_ids.to(device),
            micro_batch.positions.to(device),
            micro_batch.lengths if micro_batch.packed else None,
            micro_batch.predicts.to(device),
            micro_batch.targets.to(device),
            entropy,
            micro_batch.shared,
            micro_batch.most_targets,
        )

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of this rank's share of the loss; shares of all ranks are summed. Ranks
        that share rows give the same loss, and each has the gradient of its own positions."""
        # DeepSpeed averages over ranks; our denominator is global already.
        self._deepspeed.backward(loss * process_group.ranks(), scale_wrt_gas=False)

    def step(self, rate: float) -> float:
        """Reduce, clip, move the optimizer at that learning rate, clear the gradients; returns the
        norm before clipping.

        Raises LearnerError when the norm is not finite; then nothing may be kept of the model.
        """
        for group in self._deepspeed.optimizer.param_groups:
            group["lr"] = rate
        self._deepspeed.step()
        norm = self._deepspeed.get_global_grad_norm() if self.settings.zero_stage else self._norm
        norm = float(norm)
        if not math.isfinite(norm):
            raise LearnerError(
                f"the gradient norm is {norm}: nothing of this update was kept",
                hint="look at the last batch's log-probabilities and at the learning rate",
            )
        return norm

    @torch.no_grad()
    def probe(self, token_ids: Sequence[int]) -> list[float]:
        """[T-1] log p(token t+1 | tokens up to t) of one sequence, in float32."""
        count = len(token_ids)
        line = Line(
            key="probe",
            token_ids=np.array(token_ids, dtype=np.int64),
            sampled=np.arange(count) > 0,
            weight=0.0,
            advantage=0.0,
            old_logprobs=np.zeros(count, dtype=np.float32),
            versions=np.full(count, -1),
        )
        sharing = self.settings.sequence_parallel
        ((whole,),) = split([line], tokens=count, packed=False, sharing=sharing)
        return self.score(whole)[0].float().tolist()

    def weights(self) -> dict[str, Tensor]:
        """Every parameter and buffer, whole, in main memory; empty on ranks other than 0."""
        if self.settings.zero_stage < 3:
            state = self.model.state_dict()
        else:
            state = {}
            # One at a time: the whole model need not fit beside its shards.
            for name, parameter in self.model.named_parameters(remove_duplicate=False):
                with deepspeed.zero.GatheredParameters([parameter]):
                    if process_group.rank() == 0:
                        state[name] = parameter.detach().cpu().clone()
        if process_group.rank() != 0:
            return {}
        if self.model.config.tie_word_embeddings:
            state.pop("lm_head.weight", None)
        return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()}

    def save(self, folder: Path) -> None:
        """DeepSpeed's own checkpoint under `folder`/state; every rank writes its part."""
        self._deepspeed.save_checkpoint(str(folder), tag="state", save_latest=False)

    def load(self, folder: Path, *, universal: bool = False) -> None:
        """Load what `save` wrote, or its universal form; the caller has verified the digests."""
        self._deepspeed._config.load_universal_checkpoint = universal
        path, _ = self._deepspeed.load_checkpoint(str(folder), tag="state")
        self._deepspeed._config.load_universal_checkpoint = False
        if path is None:
            raise CheckpointError(f"DeepSpeed found no checkpoint in {folder}")

    def _reduce_and_clip(self, *_: object) -> None:
        """Just before AdamW moves: raising here leaves the model untouched."""
        parameters = [p for p in self.model.parameters() if p.grad is not None]
        process_group.average_gradients(parameters)
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters])  # pyright: ignore
        self._norm = float(norm)
        if not math.isfinite(self._norm):
            raise LearnerError(
                f"the gradient norm is {self._norm}: the optimizer was not moved",
                hint="look at the last batch's log-probabilities and at the learning rate",
            )
        torch.nn.utils.clip_grads_with_norm_(parameters, self._optimizer_settings.grad_norm, norm)


def load_model(settings: Model, layout: Layout) -> PreTrainedModel:
    """A causal language model from a local folder; ConfigError when it cannot be had, or when the
    layout is not proved for its architecture."""
    disable_progress_bar()
    path = settings.path
    try:
        shape = AutoConfig.from_pretrained(path, local_files_only=True)
        _require_proved(shape, settings, layout)
        AttentionInterface.register(attention.NAME, attention.attend)
        model = AutoModelForCausalLM.from_pretrained(
            path,
            config=shape,
            dtype=DTYPES[settings.dtype],
            local_files_only=True,
            use_safetensors=True,
            attn_implementation=attention.NAME,
        )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"model.path: cannot load a model from {path}: {str(error).splitlines()[0]}"
        ) from error
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # the policy that sampled has none
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.0  # pyright: ignore[reportArgumentType]
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if settings.offload_activations:
        layer_memory.keep_activations_in_main_memory(model)
    if settings.mlp_tiles > 1:
        layer_memory.tile_mlps(model, settings.mlp_tiles)
    return model


def _sequence_group(settings: Model) -> sequence.SequenceGroup | None:
    size, ranks = settings.sequence_parallel, process_group.ranks()
    if ranks % size:
        raise ConfigError(
            f"model.sequence_parallel: {ranks} ranks cannot be divided into groups of {size}"
        )
    return sequence.SequenceGroup(size) if size > 1 else None


def _share_rows(model: PreTrainedModel, sharing: sequence.SequenceGroup) -> None:
    """Attention of every kind that the model has works on rows that are shared out."""
    for wrong in architectures.unshareable(model.config, sharing.size):
        raise ConfigError(f"model.sequence_parallel: {wrong}")
    AttentionInterface.register(sequence.NAME, sharing.attend)
    model.set_attn_implementation(sequence.NAME)
    if "linear_attention" in (getattr(model.config, "layer_types", None) or ()):
        sharing.share_linear_attention(modeling_qwen3_5)


def _require_proved(shape: PretrainedConfig, model: Model, layout: Layout) -> None:
    path = model.path
    proved = architectures.PROVED.get(shape.model_type)
    if proved is None:
        raise ConfigError(
            f"model.path: the architecture {shape.model_type!r} is not proved with this learner",
            hint=f"proved are {', '.join(sorted(architectures.PROVED))}",
        )
    for wrong in architectures.unproved_options(shape):
        raise ConfigError(f"model.path: {path}: {wrong}")
    longest = getattr(shape, "max_position_embeddings", None)
    if longest is not None and model.max_tokens > longest:
        raise ConfigError(
            f"model.max_tokens: {model.max_tokens}, but {path} is made for {longest} positions"
        )
    if layout.layout != "padded" and not proved.packing:
        raise ConfigError(
            f"batch.layout: packing leaks between lines in {shape.model_type!r} (linear attention "
            "carries its state on)",
            hint='set layout = "padded"',
        )
    for name, value in (
        ("sequence_parallel", model.sequence_parallel),
        ("mlp_tiles", model.mlp_tiles),
    ):
        if value > 1 and not getattr(proved, name):
            raise ConfigError(
                f"model.{name}: not proved with {shape.model_type!r}", hint=f"set {name} = 1"
            )
