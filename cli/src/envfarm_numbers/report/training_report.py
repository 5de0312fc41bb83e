"""Sections on a training run, from the learner's record of each update (steps.jsonl)."""

from typing import Any

from envfarm_numbers.report import blocks
from envfarm_numbers.report.document import Document, Figure, Section, lookup, pointer

CURVES: tuple[tuple[str, dict[str, str], str], ...] = (
    (
        "Reward",
        {"reward_mean": "trained groups", "sampled_reward": "all sampled attempts"},
        "Mean reward. Trained groups hold both rewards, so theirs is drawn towards one half; all "
        "sampled attempts show the policy.",
    ),
    (
        "Zero-variance groups",
        {"zero_variance_share": "trained on", "sampled_equal_share": "all sampled"},
        "Share of groups whose rewards were all equal; they teach nothing and were replaced.",
    ),
    (
        "Mismatch of engine and learner",
        {"mismatch_gap": "nats"},
        "Mean absolute difference of the log-probabilities of sampled tokens.",
    ),
    ("Gradient norm", {"grad_norm": "before clipping"}, "Global norm of the gradient."),
    ("Clipped tokens", {"clip_share": "share"}, "Share of tokens whose ratio was clipped."),
    ("Loss", {"loss": "loss"}, "Token mean of the surrogate; it need not fall."),
    ("Tokens", {"tokens": "trained tokens"}, "Tokens that the loss looks at, in each update."),
)


def training_sections(data: dict[str, Any], *keys: str | int) -> list[Section]:
    """`keys` leads to a list of records with `update` and any of the columns of CURVES."""
    steps = lookup(data, pointer(*keys))
    figures: list[Figure] = []
    for title, lines, caption in CURVES:
        present = {
            key: label
            for key, label in lines.items()
            if any(step.get(key) is not None for step in steps)
        }
        if present:
            figures.append(
                blocks.training_curve(
                    data,
                    keys,
                    present,
                    id=f"curve-{next(iter(lines)).replace('_', '-')}",
                    title=title,
                    caption=caption,
                )
            )
    return [Section("training", "Training", figures, f"{len(steps)} updates.")]


def training_report(steps: list[dict[str, Any]], name: str) -> Document:
    """A document of its own."""
    data = {"steps": steps}
    return Document(
        title=name,
        subtitle=f"{len(steps)} updates",
        sections=training_sections(data, "steps"),
        data=data,
    )
