"""How a policy's tokens are drawn, as gateway and learner must agree on it."""

from dataclasses import asdict, dataclass

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
        """Stands in every trajectory; the learner refuses groups of another one."""
        return content_hash(asdict(self))
