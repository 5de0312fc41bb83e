"""RUN.toml of `envfarm train`: which tasks, how much, measured how, on which services."""

from pathlib import Path
from typing import Any, Self

from envfarm.canonical import bytes_hash
from pydantic import Field, model_validator

from envfarm_cli.campaign.opening import NAME_PATTERN, Services
from envfarm_cli.campaign.recipe import Part, Recipe, read_toml, set_keys
from envfarm_cli.failure import BadInput
from envfarm_numbers.selection_files import SelectedTasks
from envfarm_numbers.suite import Suite


class Tasks(Part):
    """The pool: a selection, or tasks of a domain by tag."""

    selection: str = ""
    """Folder or train.json that `envfarm select` wrote."""
    domain: str = ""
    tags: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.selection) == bool(self.domain):
            raise ValueError("give either selection or domain")
        return self


class Train(Part):
    updates: int = Field(ge=1)
    groups_per_update: int = Field(ge=1)
    group_size: int = Field(8, ge=2)
    staleness: int = Field(1, ge=0, le=4)
    updates_per_version: int = Field(1, ge=1)
    max_replacements: int | None = None
    """Groups of equal rewards replaced per update; the gateway's default when it is left out."""
    reband_after: int = Field(0, ge=0)
    """Attempts after which a task's band is looked at again, so that too hard and too easy ones rest;
    0 keeps the pool fixed."""

    @model_validator(mode="after")
    def _a_group_at_least(self) -> Self:
        if 0 < self.reband_after < self.group_size:
            raise ValueError(f"reband_after is 0, or at least one group of {self.group_size}")
        return self


class Validation(Part):
    """Evaluations between: an ordinary evaluation job at a pinned version."""

    every: int = Field(ge=1)
    """Versions between two of them."""
    k: int = Field(ge=1)
    suite: str = ""
    """A frozen suite, or a selection's validation.json."""
    domain: str = ""
    tags: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.suite) == bool(self.domain):
            raise ValueError("give either suite or domain")
        return self


class RunRecipe(Recipe):
    """One training run."""

    name: str = Field(pattern=NAME_PATTERN)
    seed: int = Field(1, ge=0)
    learner: str = "learner/configs/tiny-cpu.toml"
    """The learner's configuration; the sections below and `overrides` win over it."""
    model: str = ""
    """Folder of the starting weights; empty takes the stack's model."""
    tasks: Tasks
    train: Train
    validation: Validation | None = None
    overrides: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Section → key → value for the learner's configuration."""
    services: Services = Services(stack="running", engine="vllm", model="")
    content: dict[str, str] = Field(default_factory=dict)
    """Hashes of the files that the recipe names, filled in when it is resolved."""

    @classmethod
    def load(cls, path: Path, settings: list[str], services: Services | None = None) -> Self:
        """BadInput for everything that is wrong, files that are named included."""
        values = {"name": path.stem, **set_keys(read_toml(path), settings)}
        if services is not None:
            values["services"] = services.model_dump()
        recipe = cls.resolve(str(path), {**values, "content": {}})
        return cls.resolve(str(path), {**recipe.plain(), "content": recipe._read_files()})

    def _read_files(self) -> dict[str, str]:
        learner = Path(self.learner)
        if not learner.is_file():
            raise BadInput(f"learner: there is no file {learner}", hint="run envfarm where it lies")
        found = {"learner": bytes_hash(learner.read_bytes())}
        if self.tasks.selection:
            found["selection"] = SelectedTasks.read(Path(self.tasks.selection)).selection
        if self.validation and self.validation.suite:
            found["suite"] = Suite.read(Path(self.validation.suite), biased=True).hash
        if self.model and not (Path(self.model) / "config.json").is_file():
            raise BadInput(f"model: there is no config.json in {self.model}")
        return found
