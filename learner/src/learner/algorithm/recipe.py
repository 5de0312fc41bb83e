"""The algorithm's choices, each explicit; a preset fills what is not written, and nothing else does.

The resolved section, preset replaced by what it stands for, is part of the recipe's hash.
"""

from typing import Any, Self

from pydantic import Field, model_validator

from learner.algorithm import advantage, aggregation, correction, kl, overlong, surrogate
from learner.algorithm.presets import PRESETS
from learner.config_file import Section


class Algorithm(Section):
    advantage: advantage.Kind
    surrogate: surrogate.Kind
    clip_low: float = Field(gt=0, le=1)
    """ε_low: the ratio is held above 1 − ε_low."""
    clip_high: float = Field(gt=0)
    """ε_high: the ratio is held below 1 + ε_high."""
    aggregation: aggregation.Kind
    constant_tokens: int = Field(ge=0)
    """L_max of the constant aggregation; 0 with any other."""
    correction: correction.Kind
    correction_low: float = Field(ge=0)
    """Lower bound of icepop and sequence_mask; 0 with any other."""
    correction_high: float = Field(ge=0)
    """Upper bound; 0 without a correction."""
    kl: kl.Kind
    kl_coefficient: float = Field(ge=0)
    """β; 0 without KL."""
    kl_reference: str = Field(pattern="^(none|initial|engine)$")
    """The initial model (a second one in memory), or the probabilities that sampled."""
    entropy_coefficient: float = Field(ge=0)
    """Bonus for entropy, subtracted from the loss at each token."""
    overlong: overlong.Kind
    overlong_tokens: int = Field(ge=0)
    """L_max of the penalty, in sampled tokens; 0 without it."""
    overlong_buffer: int = Field(ge=0)
    """C of the penalty; 0 without it."""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "preset" not in values:
            return values
        name = values["preset"]
        if name not in PRESETS:
            raise ValueError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
        written = {key: value for key, value in values.items() if key != "preset"}
        return {**PRESETS[name], **written}

    @model_validator(mode="after")
    def _possible(self) -> Self:
        corrected = self.correction != "none"
        bounded = self.correction in ("icepop", "sequence_mask")
        refusals = {
            "gspo shares one ratio over a sequence: aggregation must be sequence_mean": (
                self.surrogate == "gspo" and self.aggregation != "sequence_mean"
            ),
            "clip_low 1 leaves no lower bound: only cispo does without one": (
                self.clip_low == 1 and self.surrogate != "cispo"
            ),
            "constant_tokens belongs to aggregation constant, above 0 there and 0 elsewhere": (
                (self.aggregation == "constant") != (self.constant_tokens > 0)
            ),
            "a correction takes the ratio to the learner itself, so gspo's and cispo's bounds would "
            "never act": corrected and self.surrogate != "clipped",
            "correction_high belongs to a correction, above 0 there and 0 elsewhere": (
                corrected != (self.correction_high > 0)
            ),
            "correction_low belongs to icepop and sequence_mask, above 0 there and 0 elsewhere": (
                bounded != (self.correction_low > 0)
            ),
            "correction_low must be below correction_high": (
                bounded and self.correction_low >= self.correction_high
            ),
            "kl, kl_coefficient and kl_reference go together: all of them or none": (
                len({self.kl != "none", self.kl_coefficient > 0, self.kl_reference != "none"}) > 1
            ),
            "k1 is a penalty at each token, and gspo has one ratio for a whole line": (
                self.kl == "k1" and self.surrogate == "gspo"
            ),
            "overlong_tokens and overlong_buffer belong to the penalty, 0 elsewhere": (
                len(
                    {self.overlong == "penalty", self.overlong_tokens > 0, self.overlong_buffer > 0}
                )
                > 1
            ),
            "overlong_buffer must not exceed overlong_tokens": (
                self.overlong_buffer > self.overlong_tokens
            ),
        }
        for sentence, refused in refusals.items():
            if refused:
                raise ValueError(sentence)
        return self

    @property
    def has_terms_of_its_own(self) -> bool:
        """True when a batch without advantages still has a gradient."""
        return self.kl != "none" or self.entropy_coefficient > 0
