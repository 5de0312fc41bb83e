"""The last word on a training run: summary.json and report.md."""

from pathlib import Path
from typing import Any

from envfarm_cli.campaign.files import read_json, write_durably, write_json
from envfarm_cli.campaign.run_recipe import RunRecipe
from envfarm_cli.campaign.stages import Stages


def write_report(recipe: RunRecipe, stages: Stages, folder: Path) -> dict[str, Any]:
    """Write both files; gives the summary."""
    trained = stages.result("train")
    curve = read_json(folder / "curves.json")
    summary = {
        "name": recipe.name,
        "recipe_hash": recipe.hash,
        "seed": recipe.seed,
        **trained,
        "best_version": best(trained["validations"])["version"] if trained["validations"] else None,
        "stages": stages.seconds,
    }
    write_json(folder / "summary.json", summary)
    write_durably(folder / "report.md", _markdown(summary, curve).encode())
    return summary


def best(validations: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the highest pass@1; the later of equals."""
    return max(validations, key=lambda found: (found["pass_at_1"], found["version"]))


def _markdown(summary: dict[str, Any], curve: list[dict[str, Any]]) -> str:
    groups = summary["groups"]
    cancelled = ", ".join(f"{why} {n}" for why, n in groups["cancelled"].items()) or "none"
    lines = [
        f"# Training run {summary['name']}",
        "",
        f"Recipe {summary['recipe_hash'][:12]}, seed {summary['seed']}; {summary['updates']} updates, "
        f"weights {summary['version']['weights_hash'][:12]} as version "
        f"{summary['version']['number']}.",
        "",
        f"Groups: {groups['published']} published, {groups['replaced_zero_variance']} replaced for "
        f"equal rewards, {groups['dropped']} dropped by the learner; cancelled: {cancelled}. "
        f"{groups['refilled_samples']} attempts without reward were run again.",
        "",
    ]
    if summary["validations"]:
        lines += ["| version | pass@1 | ever passed | always passed | tasks × k |"]
        lines += ["|---|---|---|---|---|"]
        for found in summary["validations"]:
            mark = " (best)" if found["version"] == summary["best_version"] else ""
            lines.append(
                f"| {found['version']}{mark} | {found['pass_at_1']:.3f} | {found['ever_passed']} | "
                f"{found['always_passed']} | {found['tasks']} × {found['k']} |"
            )
        lines.append("")
    lines += [
        "Sampled reward: mean over all attempts that the version sampled, replaced groups included.",
        "",
        "| update | sampled reward | trained reward | equal rewards | engine − learner, nats |",
        "|---|---|---|---|---|",
    ]
    for point in curve:
        sampled = "" if point["sampled_reward"] is None else f"{point['sampled_reward']:.3f}"
        equal = point.get("sampled_equal_share")
        lines.append(
            f"| {point['update']} | {sampled} | {point['reward_mean']:.3f} | "
            f"{'' if equal is None else f'{equal:.2f}'} | {point['mismatch_gap']:.2g} |"
        )
    return "\n".join(lines) + "\n"
