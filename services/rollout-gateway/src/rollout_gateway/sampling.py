"""The sampling parameters of the policy: all of them, always sent, hashed into every record."""

from dataclasses import asdict, dataclass
from typing import Any

from envfarm.canonical import content_hash


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """Nothing is left to an engine's default or to a model's generation_config.json."""

    temperature: float = 1.0
    top_k: int = 20
    """0 takes all tokens."""
    top_p: float = 0.95
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    min_tokens: int = 0

    @property
    def hash(self) -> str:
        return content_hash(asdict(self))

    def parameters(self, *, max_tokens: int, stops: tuple[int, ...]) -> dict[str, Any]:
        """vLLM's `sampling_params` of one generation, raw logprobs of the sampled tokens included.

        There is no seed: on the CPU a seeded request whose prompt is filled in two steps ends the
        engine ("CPU Generator does not use offset").
        """
        return {
            **asdict(self),
            "n": 1,
            "seed": None,
            "max_tokens": max_tokens,
            "stop": None,
            "stop_token_ids": list(stops),
            "ignore_eos": True,
            "logprobs": 0,
            "prompt_logprobs": None,
            "logit_bias": None,
            "bad_words": None,
            "allowed_token_ids": None,
            "detokenize": False,
            "skip_special_tokens": False,
        }
