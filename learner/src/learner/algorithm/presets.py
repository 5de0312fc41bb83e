"""Named algorithms, complete; bounds as published by their authors.

reference   token-mean GRPO, no deviation, no KL, clip 0.2/0.2
dapo        clip higher 0.28, truncated rollouts masked
dr_grpo     constant denominator in place of the number of tokens
gspo        sequence ratio, bounds 3e-4 / 4e-4, mean over sequences
cispo       clipped importance weight, upper bound 5, no lower bound
"""

from typing import Any

_REFERENCE: dict[str, Any] = {
    "advantage": "centered",
    "surrogate": "clipped",
    "clip_low": 0.2,
    "clip_high": 0.2,
    "aggregation": "token_mean",
    "constant_tokens": 0,
    "correction": "none",
    "correction_low": 0.0,
    "correction_high": 0.0,
    "kl": "none",
    "kl_coefficient": 0.0,
    "kl_reference": "none",
    "entropy_coefficient": 0.0,
    "overlong": "keep",
    "overlong_tokens": 0,
    "overlong_buffer": 0,
}

PRESETS: dict[str, dict[str, Any]] = {
    "reference": _REFERENCE,
    "dapo": {**_REFERENCE, "advantage": "std", "clip_high": 0.28, "overlong": "mask"},
    "dr_grpo": {**_REFERENCE, "aggregation": "constant", "constant_tokens": 8192},
    "gspo": {
        **_REFERENCE,
        "advantage": "std",
        "surrogate": "gspo",
        "clip_low": 3e-4,
        "clip_high": 4e-4,
        "aggregation": "sequence_mean",
    },
    "cispo": {**_REFERENCE, "surrogate": "cispo", "clip_low": 1.0, "clip_high": 5.0},
}
