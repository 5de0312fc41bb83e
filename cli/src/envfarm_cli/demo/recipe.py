"""The demonstration's recipe: every figure that it decides, scaled by --minutes.

The figures at 20 minutes are for a policy of a million parameters on two quiet cores; fewer minutes
shorten each stage by the same share.
"""

from pathlib import Path
from typing import Literal, Self

from envfarm.canonical import bytes_hash
from pydantic import Field

from envfarm_cli.campaign.recipe import Part, Recipe
from envfarm_cli.learner_config import Overrides
from envfarm_cli.proofs import domain_hash

DOMAIN = "counter"
VOCABULARY = 768
"""As top_k it leaves nothing out: then the engine samples from what the learner computes."""
FULL_MINUTES = 20.0
MOST_MINUTES = 240.0


class FirstModel(Part):
    """What the demonstration begins with."""

    vocabulary: int = Field(ge=300)
    """Most entries of the tokenizer; each word of the domain is one."""
    copying_steps: int = Field(ge=0)
    """Steps on random strings, without which copying an id takes most of the warm start."""


class Demonstrations(Part):
    """Conversations that are played from plans, right and nearly right ones, and recorded."""

    per_task: int = Field(ge=1)
    right_share: float = Field(gt=0, le=1)
    """Of them golden; the rest end wrongly, or there would be little left to learn by trying."""
    copies: int = Field(ge=0)
    """Of each, with other ids and names: so that copying and comparing is learned, and not the
    records of the training tasks."""


class WarmStart(Part):
    """Supervised learning on them."""

    steps: int = Field(ge=1)
    batch: int = Field(ge=1)
    """Conversations a step."""
    lr: float = Field(gt=0)
    """At its highest. 3e-3 brings such a small model in 320 steps of 16 to where 1e-3 brings it in
    440 of 32; 6e-3 is worse again."""


class Probe(Part):
    tasks: int
    """At most, evenly over the workflows; 0 takes every training task."""
    minimum: int
    cap: int
    at_once: int
    worth: float


class Evaluation(Part):
    tasks: int
    """At most; 0 takes every held-out task."""
    k: int


class Train(Part):
    updates: int
    groups_per_update: int
    group_size: int
    lr: float
    """At its highest: it rises over the first `warmup` updates and falls to the end."""
    warmup: int
    """Without a rise, Adam's first steps move every weight by the whole rate and cost what the
    warm start taught."""
    staleness: int
    max_replacements: int


class Sampling(Part):
    """Sent with every generation of every stage."""

    temperature: float
    top_k: int
    top_p: float


class DemoRecipe(Recipe):
    """One demonstration."""

    seed: int = Field(ge=0)
    minutes: float
    control: Literal["none", "permuted"]
    """permuted: the learner gets each group's rewards in another order; nothing can be learned."""
    domain: str
    content: str
    """Hash of the domain's files and of the grader."""
    train_tasks_of_a_workflow: int = Field(ge=1, le=50)
    """Of few a policy learns the tasks by heart instead of the rules."""
    learner: str
    """Path of the learner's configuration that `learner_overrides` changes."""
    learner_content: str
    """SHA-256 (hex) of that file."""
    max_tokens: int
    """Longest conversation."""
    concurrency: int
    """Attempts at once."""
    first_model: FirstModel
    demonstrations: Demonstrations
    warm_start: WarmStart
    probe: Probe
    evaluation: Evaluation
    train: Train
    sampling: Sampling

    @classmethod
    def scaled(
        cls, *, seed: int, minutes: float, control: str, learner: Path, domains: Path
    ) -> Self:
        """The recipe for about that many minutes on two cores."""
        share = minutes / FULL_MINUTES
        return cls.resolve(
            "envfarm demo",
            {
                "seed": seed,
                "minutes": minutes,
                "control": control,
                "domain": DOMAIN,
                "content": domain_hash(domains / DOMAIN),
                "train_tasks_of_a_workflow": 20 if share >= 0.5 else 6,
                "learner": str(learner),
                "learner_content": bytes_hash(learner.read_bytes()),
                "max_tokens": 1024,
                "concurrency": 64,
                "first_model": {"vocabulary": VOCABULARY, "copying_steps": 300},
                "demonstrations": {
                    "per_task": 2,
                    "right_share": 0.6,
                    "copies": 9,
                },
                "warm_start": {
                    "steps": _at_least(20, 700 * share),
                    "batch": 16 if share >= 0.5 else 8,
                    "lr": 3e-3,
                },
                "probe": {
                    "tasks": 0,
                    "minimum": 3,
                    "cap": 4 if share >= 0.5 else 8,
                    "at_once": 3,
                    "worth": 400.0,
                },
                "evaluation": {"tasks": 0 if share >= 0.5 else 16, "k": 8 if share >= 0.5 else 4},
                "train": {
                    "updates": _at_least(2, 28 * share),
                    "groups_per_update": 16 if share >= 0.5 else 6,
                    "group_size": 8,
                    "lr": 3.5e-4,
                    "warmup": _at_least(1, 5 * share),
                    "staleness": 1,
                    "max_replacements": 16 if share >= 0.5 else 6,
                },
                "sampling": {"temperature": 1.0, "top_k": VOCABULARY, "top_p": 1.0},
            },
        )

    @property
    def run_id(self) -> str:
        """Names run, jobs and folder; the learner holds a control to its name."""
        what = "control" if self.control == "permuted" else "demo"
        return f"{what}-s{self.seed}-{self.minutes:g}min-{self.hash[:8]}"

    def gateway_settings(self) -> dict[str, str]:
        return {
            "GATEWAY_TEMPERATURE": str(self.sampling.temperature),
            "GATEWAY_TOP_K": str(self.sampling.top_k),
            "GATEWAY_TOP_P": str(self.sampling.top_p),
            "GATEWAY_CONCURRENCY": str(self.concurrency),
        }

    def layout(self) -> dict[str, str | int]:
        """Of the lines in both kinds of training: the system prompt, two thirds of each
        conversation, stands once in a row of some 36."""
        return {
            "layout": "shared",
            "micro_batch_tokens": 16 * self.max_tokens,
            "logits_at_once": 1 << 20,
        }

    def learner_overrides(self) -> Overrides:
        """What the learner's configuration takes from this recipe."""
        return {
            "": {"seed": self.seed},
            "run": {"checkpoint_every": 5, "keep_weights": 4},
            "model": {"max_tokens": self.max_tokens},
            "batch": self.layout(),
            # Groups that were delivered wait for their checkpoint.
            "stream": {"retained_groups": 5 * self.train.groups_per_update + 32},
            "optimizer": {"lr": self.train.lr},
            "schedule": {"kind": "cosine", "warmup_steps": self.train.warmup},
            "sampling": {
                "temperature": self.sampling.temperature,
                "top_k": self.sampling.top_k,
                "top_p": self.sampling.top_p,
                "max_turn_tokens": 64,
                "max_prompt_tokens": self.max_tokens // 2,
                "max_response_tokens": self.max_tokens // 2,
            },
            **({"control": {"rewards": "permuted"}} if self.control == "permuted" else {}),
        }


def _at_least(least: int, value: float) -> int:
    return max(least, round(value))
