"""What the gateway asks of vLLM for one generation: the policy's sampling, all of it, always sent."""

from dataclasses import asdict
from typing import Any

from envfarm.sampling import Sampling


def sampling_params(
    sampling: Sampling, *, max_tokens: int, stops: tuple[int, ...]
) -> dict[str, Any]:
    """vLLM's `sampling_params` of one generation, raw logprobs of the sampled tokens included.

    There is no seed: on the CPU a seeded request whose prompt is filled in two steps ends the
    engine ("CPU Generator does not use offset").
    """
    return {
        **asdict(sampling),
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
