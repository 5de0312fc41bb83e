"""The demonstration's report as a document: before and after, training, time, cost, origin."""

from typing import Any

from envfarm_cli.campaign.narration import minutes
from envfarm_numbers.report import blocks
from envfarm_numbers.report.document import (
    Card,
    Cards,
    Cell,
    Document,
    Notice,
    Section,
    Table,
    Text,
    at,
)

BEFORE, AFTER = ("comparison", "a"), ("comparison", "b")
SIDES = (("b", "before", BEFORE), ("a", "after", AFTER))
NAMES = ("before", "after")


def document(summary: dict[str, Any]) -> Document:
    """Every number of it stands in the summary."""
    return Document(
        title="envfarm demo" + (": permuted control" if summary["control"] != "none" else ""),
        subtitle=(
            f"seed {summary['seed']}, {summary['before']['tasks']} held-out tasks × "
            f"{summary['before']['k']} attempts, {summary['updates']} updates, "
            f"{minutes(summary['wall_seconds'])}"
        ),
        sections=[
            _outcome(summary),
            _tasks(summary),
            _training(summary),
            _before_training(summary),
            _expense(summary),
            _origin(summary),
        ],
        data=summary,
        notices=[Notice(verdict(summary), "note" if _as_hoped(summary) else "warning")],
    )


def verdict(summary: dict[str, Any]) -> str:
    """One sentence, the same on the terminal."""
    if summary["paired"]["ci95"][0] is None:
        return "Too few tasks for an interval: nothing is claimed."
    if summary["control"] == "permuted":
        if summary["better"]:
            return (
                "The control is significant although its rewards were permuted: something other "
                "than the rewards moved the figures. Do not trust the demo."
            )
        return (
            "With permuted rewards there is no gain to be seen, as it must be: what a real run "
            "gains comes from its rewards."
        )
    if summary["better"]:
        return "The policy got better on tasks that it never trained on."
    return "Not shown: the interval does not lie above zero, so this run proves no gain."


def _as_hoped(summary: dict[str, Any]) -> bool:
    return summary["better"] == (summary["control"] == "none")


def _outcome(data: dict[str, Any]) -> Section:
    low, high = data["paired"]["ci95"]
    difference = Card(
        label="pass@1, after minus before, in points",
        number=at(data, "paired", "pass_at_1_diff", how="points"),
        low=at(data, "paired", "ci95", 0, how="points") if low is not None else None,
        high=at(data, "paired", "ci95", 1, how="points") if high is not None else None,
        note=f"paired by task. {data['paired']['interval']}",
    )
    return Section(
        id="outcome",
        title="Before and after",
        lead="The same suite, the same seeds, fresh databases; the only difference is training.",
        blocks=[
            Cards([difference]),
            blocks.headline_table(
                data, [(kind, name, (*keys, "results")) for kind, name, keys in SIDES]
            ),
            blocks.differences(data, "comparison", "paired", names=NAMES),
            blocks.curves_over_attempts(
                data, [(kind, label, (*keys, "results")) for kind, label, keys in SIDES]
            ),
        ],
    )


def _tasks(data: dict[str, Any]) -> Section:
    return Section(
        id="tasks",
        title="Which tasks, and why attempts failed",
        blocks=[
            blocks.scatter(data, "comparison", "tasks", names=NAMES),
            _workflows(data),
            blocks.failures(
                data, [(kind, label, (*keys, "failures")) for kind, label, keys in SIDES]
            ),
        ],
    )


def _workflows(data: dict[str, Any]) -> Table:
    rows: list[list[Cell]] = []
    for name in data["comparison"]["workflows"]:
        place = ("comparison", "workflows", name, "differences", 0)
        rows.append(
            [
                name,
                at(data, "comparison", "workflows", name, "tasks", how="count"),
                *(at(data, *place, side, how="percent") for side in ("a", "b")),
                at(data, *place, "value", how="points"),
            ]
        )
    return Table(
        ["workflow", "tasks", "before", "after", "points"],
        rows,
        "pass@1 by workflow; so few tasks have no interval",
    )


def _training(data: dict[str, Any]) -> Section:
    curve = ("curves",)
    groups: list[list[Cell]] = [
        [what, at(data, "groups", key, how="count")]
        for what, key in (
            ("published to the learner", "published"),
            ("replaced because all rewards were equal", "replaced_zero_variance"),
            ("kept although all rewards were equal (cap on replacements)", "filled_zero_variance"),
            ("dropped by the learner as too old, and replaced", "dropped"),
            ("attempts without reward that were run again", "refilled_samples"),
        )
    ]
    groups += [
        [
            f"cancelled: {reason.replace('_', ' ')}",
            at(data, "groups", "cancelled", reason, how="count"),
        ]
        for reason in data["groups"]["cancelled"]
    ]
    return Section(
        id="training",
        title="Training",
        lead="Rewards that were sampled under each version, before the update they led to.",
        blocks=[
            blocks.training_curve(
                data,
                curve,
                {"sampled_reward": "all attempts", "reward_mean": "groups trained on"},
                id="reward",
                title="Mean reward by update",
                caption="All attempts that the version sampled, replaced groups included; and the "
                "groups that the learner used.",
            ),
            blocks.training_curve(
                data,
                curve,
                {"sampled_equal_share": "share"},
                id="equal-rewards",
                title="Groups whose rewards were all equal",
                caption="Share of the sampled groups; they carry no gradient and are replaced up "
                "to a cap.",
            ),
            blocks.training_curve(
                data,
                curve,
                {"mismatch_gap": "nats"},
                id="mismatch",
                title="Engine against learner",
                caption="Largest difference of log-probabilities on tokens of the current version; "
                "above a stated tolerance the run stops.",
            ),
            Table(["groups", "number"], groups, "What became of every group"),
        ],
    )


def _before_training(data: dict[str, Any]) -> Section:
    facts: list[list[Cell]] = [
        ["tasks proved", at(data, "proofs", "passed", how="count")],
        ["mutants caught", at(data, "proofs", "mutants_killed", how="count")],
        ["recorded conversations", at(data, "demonstrations", "conversations", how="count")],
        ["of them right", at(data, "demonstrations", "reward_mean", how="percent")],
        ["supervised steps", at(data, "warm_start", "steps", how="count")],
        ["loss at first", at(data, "warm_start", "first_loss")],
        ["loss at last", at(data, "warm_start", "last_loss")],
        ["attempts of the probe", at(data, "probe", "attempts", how="count")],
        ["training tasks selected", at(data, "probe", "selected", how="count")],
        [
            "expected share of informative groups",
            at(data, "probe", "expected_informative_groups", how="percent"),
        ],
    ]
    bands: list[list[Cell]] = [
        [name.replace("_", " "), at(data, "probe", "bands", name, how="count")]
        for name in data["probe"]["bands"]
    ]
    return Section(
        id="start",
        title="Before training",
        lead="Tasks proved themselves, the policy was warmed up, and the training tasks probed.",
        blocks=[
            Table(["what", "number"], facts),
            Table(["difficulty band", "training tasks"], bands, "By the Jeffreys posterior"),
        ],
    )


def _expense(data: dict[str, Any]) -> Section:
    stages: list[list[Cell]] = [
        [name, at(data, "stages", name), at(data, "starts", name, how="count")]
        for name in data["stages"]
    ]
    used: list[list[Cell]] = [
        [name]
        + [
            at(data, "tokens", name, key, how="count")
            for key in ("attempts", "wasted_attempts", "prompt_tokens", "sampled_tokens")
        ]
        for name in data["tokens"]
    ]
    cost: list[list[Cell]] = [
        [f"attempts: {name}", at(data, "cost", "attempts", name, how="money")]
        for name in data["cost"]["attempts"]
    ]
    cost.append(["machine while learning", at(data, "cost", "machine", how="money")])
    return Section(
        id="expense",
        title="Time, tokens, cost",
        blocks=[
            Table(["stage", "seconds", "starts"], stages, "Over all starts of the demo"),
            Table(["attempts of", "number", "without reward", "prompt tokens", "sampled"], used),
            Table(["paid for", data["cost"]["currency"]], cost),
            Text(f"Prices of {data['cost']['prices_of']}."),
            *blocks.cost(data, *AFTER, "cost"),
        ],
    )


def _origin(data: dict[str, Any]) -> Section:
    rows: list[list[Cell]] = [[name, data["hashes"][name][:16]] for name in data["hashes"]]
    return Section(
        id="origin",
        title="Where it came from",
        lead="Equal hashes, equal content: recipe, domain, suite, weights and attempts.",
        blocks=[Table(["what", "SHA-256, its head"], rows)],
    )
