"""The configuration of one supervised run: TOML, frozen, and no number has a default."""

from pathlib import Path
from typing import Any, Literal, Self

from envfarm.canonical import content_hash
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from learner.config_file import Section
from learner.model_config import Layout, Model, Optimizer, Schedule


class Run(Section):
    dir: Path
    """Folder of checkpoints, model, metrics.jsonl, config.json and summary.json."""
    steps: PositiveInt | None = None
    """Optimizer steps; give this or epochs."""
    epochs: PositiveFloat | None = None
    """Passes over the data."""
    checkpoint_every: PositiveInt
    """Steps."""
    keep_checkpoints: PositiveInt
    report_every: PositiveInt
    """Steps between progress lines; metrics.jsonl has every step."""

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs")
        return self


class Data(Section):
    """One folder of recorded rollouts, with every records.bin in it and below."""

    path: Path
    rewards: Literal["passed", "all"]
    """Which graded rollouts: those with reward 1, or all."""
    weight: PositiveFloat
    """How often a conversation appears in an epoch; a fraction is drawn anew in each."""


class Batch(Layout):
    conversations: PositiveInt
    """Per optimizer step, over all ranks."""


class Config(Section):
    seed: int = Field(ge=0)
    threads: PositiveInt | None = None
    """CPU threads of torch; absent leaves torch's own choice."""
    run: Run
    model: Model
    data: list[Data] = Field(min_length=1)
    batch: Batch
    optimizer: Optimizer
    schedule: Schedule

    @model_validator(mode="before")
    @classmethod
    def _one_folder(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(values.get("data"), dict):
            return {**values, "data": [values["data"]]}
        return values

    def recipe(self) -> dict[str, Any]:
        """What decides the numbers of a run, as plain values; the data have a hash of their own."""
        parts = self.model_dump(mode="json")
        model = {key: parts["model"][key] for key in ("dtype", "zero_stage", "max_tokens")}
        data = [{key: item[key] for key in ("rewards", "weight")} for item in parts["data"]]
        length = {key: parts["run"][key] for key in ("steps", "epochs")}
        return {
            "seed": parts["seed"],
            "model": model,
            "data": data,
            "length": length,
            **{name: parts[name] for name in ("batch", "optimizer", "schedule")},
        }

    def recipe_hash(self, data_hash: str, origin_hash: str) -> str:
        """Of the recipe, the conversations and the weights that it starts from."""
        return content_hash({**self.recipe(), "data_hash": data_hash, "origin": origin_hash})
