"""What the registry says of one instrument."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
Owner = Literal["env-server", "grader", "rollout-gateway", "learner"]


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: Kind
    unit: str
    owner: Owner
    labels: tuple[str, ...]
    meaning: str
