"""The learner's configuration: TOML, then `--set a.b=value`; frozen, and nothing has a default.

The sections that decide numbers (model, batch, loss, optimizer, schedule, sampling, seed,
admission) are the recipe; its hash stands in every checkpoint and a resumed run must have the same
one. The rest says where things are and when to stop.
"""

import re
from pathlib import Path
from typing import Any, Literal, Self

from envfarm import sampling
from envfarm.canonical import content_hash
from pydantic import (
    Field,
    PositiveFloat,
    PositiveInt,
    field_serializer,
    model_validator,
)

from learner.algorithm.recipe import Algorithm
from learner.config_file import Section, load_as
from learner.control import PREFIX
from learner.model_config import Layout, Model, Optimizer, Schedule
from learner.plan.cluster import Cluster


class Run(Section):
    id: str = Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")
    """Names the run's stream, lease and policy versions."""
    dir: Path
    """Folder of checkpoints, weights, steps.jsonl, groups.jsonl and config.json."""
    updates: int = Field(ge=0)
    """Stop after this many updates, counted over restarts."""
    checkpoint_every: PositiveInt
    """Updates between checkpoints; groups are acknowledged then."""
    keep_checkpoints: PositiveInt
    keep_weights: PositiveInt
    """Published weight folders that stay on disk, newest first."""
    lease_seconds: float = Field(ge=1)
    """A learner that cannot renew its lease for this long stops."""


class Batch(Layout):
    group_size: int = Field(ge=2)
    groups_per_update: PositiveInt


class Admission(Section):
    staleness: int = Field(ge=0, le=4)
    """Most versions between the learner's and the oldest that sampled a token of the group."""
    mismatch_tolerance: PositiveFloat
    """Largest |engine − learner| log-probability on tokens of the current version, in nats."""


class Sampling(Section):
    """How the gateway must sample; part of the recipe because it decides the data."""

    temperature: PositiveFloat
    top_k: int = Field(ge=0)
    """0 is off."""
    top_p: float = Field(gt=0, le=1)
    max_turn_tokens: PositiveInt
    max_prompt_tokens: PositiveInt
    max_response_tokens: PositiveInt

    @property
    def hash(self) -> str:
        """Of what the engines are told; the limits are the gateway's own."""
        told = sampling.Sampling(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)
        return told.hash

    @property
    def untouched(self) -> bool:
        """True when tokens are drawn from the model's own distribution."""
        return self.temperature == 1 and self.top_p == 1 and self.top_k == 0


class Stream(Section):
    redis_url: str
    store: Literal["redis", "dir"]
    """Where group bytes lie."""
    store_dir: Path | None
    """The GroupStore's folder when store is "dir"."""
    retained_groups: PositiveInt
    """Delivered and not yet acknowledged groups that the store has room for."""

    @model_validator(mode="before")
    @classmethod
    def _absent_store_dir(cls, values: Any) -> Any:
        # TOML has no null.
        return {"store_dir": None, **values} if isinstance(values, dict) else values

    @field_serializer("redis_url", when_used="json")
    def _without_password(self, url: str) -> str:
        """What is written beside a run holds no secret."""
        return re.sub(r"(?<=:)[^:@/]+(?=@)", "***", url)


class Gateway(Section):
    address: str
    """host:port of the gateway's gRPC door."""
    token_file: Path | None = None
    """Falls back to LEARNER_GATEWAY_TOKEN."""
    announce_seconds: PositiveFloat
    """Deadline of one announcement: all engines reload within it."""
    give_up_seconds: PositiveFloat
    """A gateway that stays away this long ends the run."""


class Publish(Section):
    every: PositiveInt
    """Updates between publications."""
    probe_tokens: int = Field(ge=2)
    probe_tolerance: PositiveFloat
    """Largest |engine − learner| log-probability over the probe prompt, in nats."""


class Metrics(Section):
    host: str
    port: int = Field(ge=0, le=65535)
    """/metrics; 0 serves none."""
    tensorboard: bool
    """Write run.dir/tensorboard as well."""


class Control(Section):
    """Turns a run into a control experiment; see control.py."""

    rewards: Literal["permuted"]


class Config(Section):
    seed: int = Field(ge=0)
    run: Run
    model: Model
    batch: Batch
    admission: Admission
    algorithm: Algorithm
    optimizer: Optimizer
    schedule: Schedule
    sampling: Sampling
    stream: Stream
    gateway: Gateway
    publish: Publish
    metrics: Metrics
    control: Control | None = None
    """Absent in every run that is meant to learn."""
    cluster: Cluster | None = None
    """What `envfarm plan` computes with; a run needs none."""

    @model_validator(mode="after")
    def _fields_fit_together(self) -> Self:
        waiting = self.run.checkpoint_every * self.batch.groups_per_update
        refusals = {
            "sampling.max_prompt_tokens + max_response_tokens is above model.max_tokens": (
                self.sampling.max_prompt_tokens + self.sampling.max_response_tokens
                > self.model.max_tokens
            ),
            "sampling.max_turn_tokens is above sampling.max_response_tokens": (
                self.sampling.max_turn_tokens > self.sampling.max_response_tokens
            ),
            f"run.checkpoint_every × batch.groups_per_update = {waiting} groups wait for a "
            f"checkpoint, but stream.retained_groups is {self.stream.retained_groups}": (
                waiting > self.stream.retained_groups
            ),
            "run.checkpoint_every must be a multiple of publish.every: a checkpoint stands on a "
            "published version": self.run.checkpoint_every % self.publish.every != 0,
            "admission.staleness 0 needs publish.every 1": (
                self.admission.staleness == 0 and self.publish.every > 1
            ),
            "run.keep_weights must be at least admission.staleness + 2: engines may still read "
            "older ones": self.run.keep_weights < self.admission.staleness + 2,
            f'control.rewards needs a run.id that begins with "{PREFIX}", and no other run has one': (
                (self.control is not None) != self.run.id.startswith(PREFIX)
            ),
            f"algorithm.correction {self.algorithm.correction!r} needs sampling.temperature 1, "
            "top_p 1 and top_k 0 (off): the ratio must be to what was sampled from": (
                self.algorithm.correction != "none" and not self.sampling.untouched
            ),
            'algorithm.kl_reference "initial" needs model.sequence_parallel 1: every rank scores '
            "whole rows with the initial model": (
                self.algorithm.kl_reference == "initial" and self.model.sequence_parallel > 1
            ),
            'stream.store "dir" needs stream.store_dir, and "redis" takes none': (
                (self.stream.store == "dir") != (self.stream.store_dir is not None)
            ),
        }
        for sentence, refused in refusals.items():
            if refused:
                raise ValueError(sentence)
        return self

    def recipe(self) -> dict[str, Any]:
        """What decides the numbers of a run, as plain values."""
        parts = self.model_dump(mode="json")
        return {
            "seed": parts["seed"],
            "model": {key: parts["model"][key] for key in ("dtype", "zero_stage", "max_tokens")},
            "publish_every": parts["publish"]["every"],
            **{name: parts[name] for name in ("batch", "admission", "algorithm", "optimizer")},
            "schedule": parts["schedule"] | self._length(),
            "sampling": parts["sampling"],
            **({"control": parts["control"]} if self.control else {}),
        }

    def _length(self) -> dict[str, int]:
        """A constant rate does not know when the run ends, so such a run may go on for longer."""
        return {} if self.schedule.kind == "constant" else {"updates": self.run.updates}

    def recipe_hash(self) -> str:
        return content_hash(self.recipe())

    def learning_rate(self, update: int) -> float:
        """Of one update, counted from 0."""
        return self.schedule.rate(self.optimizer.lr, update, self.run.updates)

    def described(self) -> str:
        """The resolved recipe for people: its hash, then a line for each section."""
        lines = [f"recipe {self.recipe_hash()}"]
        for name, part in self.recipe().items():
            values = part if isinstance(part, dict) else {"": part}
            said = " ".join(f"{key}={value}".lstrip("=") for key, value in values.items())
            lines.append(f"  {name}: {said}")
        return "\n".join(lines)


def load(path: Path, overrides: list[str]) -> Config:
    """Read the file, apply `a.b=value` in order; ConfigError names each key that is wrong."""
    return load_as(Config, path, overrides)
