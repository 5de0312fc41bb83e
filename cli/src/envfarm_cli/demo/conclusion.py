"""What the demonstration found: summary.json, the reports, and the last words on the terminal."""

import json
import shutil
from pathlib import Path
from typing import Any

from envfarm_cli.campaign.figures import Evaluated, paired, plain_paired
from envfarm_cli.campaign.files import digest, read_json, write_durably, write_json
from envfarm_cli.campaign.folder import CampaignFolder
from envfarm_cli.campaign.narration import Narration, minutes
from envfarm_cli.campaign.stages import Stage, Stages
from envfarm_cli.demo.proof import write_proof
from envfarm_cli.demo.recipe import DemoRecipe
from envfarm_cli.demo.report import render_html, render_markdown
from envfarm_cli.output import OK, Output, plain

NOT_BETTER = 3
"""Exit code of a demonstration whose interval does not lie above zero."""
REPORTS = ("report.html", "report.md", "summary.json")
EVALUATION_KEYS = (
    "pass_at_1",
    "pass_at_k",
    "observed_k",
    "ever_passed",
    "k",
    "tasks",
    "attempts",
    "estimates",
    "tokens",
)


def conclude(
    stages: Stages,
    folder: CampaignFolder,
    recipe: DemoRecipe,
    runs: Path,
    narration: Narration,
    proof: Path | None,
) -> int:
    """Write the reports into the folder and, as the latest, into `runs`; the exit code."""
    narration.stage("report", "figures with their intervals, curves, what became of every group")
    files = tuple(folder.path / name for name in REPORTS)

    def work() -> dict[str, Any]:
        summary = summarize(stages, folder, recipe)
        curves = read_json(folder.path / "training" / "curves.json")
        write_json(folder.path / "summary.json", summary)
        write_durably(folder.path / "report.md", render_markdown(summary, curves).encode())
        write_durably(
            folder.path / "report.html", render_html(summary, curves, folder.path).encode()
        )
        return {"better": summary["better"]}

    stages.run(Stage(name="report", needs=("before", "train", "after"), work=work, files=files))
    runs.mkdir(parents=True, exist_ok=True)
    for name in REPORTS:
        shutil.copyfile(folder.path / name, runs / name)
    summary = json.loads((folder.path / "summary.json").read_text())
    if proof:
        write_proof(proof, summary)
    _last_words(summary, folder.path, runs, narration.out, narration)
    narration.out.result({"ok": summary["better"], **summary})
    return OK if summary["better"] else NOT_BETTER


def summarize(stages: Stages, folder: CampaignFolder, recipe: DemoRecipe) -> dict[str, Any]:
    """Everything the reports show, as plain values."""
    before = Evaluated.read(folder.path / "before" / "attempts.jsonl")
    after = Evaluated.read(folder.path / "after" / "attempts.jsonl")
    difference = plain_paired(paired(before, after))
    trained = stages.result("train")
    low = difference["ci95"][0]
    seconds = stages.seconds
    return {
        "seed": recipe.seed,
        "control": recipe.control,
        "minutes": recipe.minutes,
        "run_id": recipe.run_id,
        "better": low is not None and low > 0,
        "before": _evaluation(stages.result("before")),
        "after": _evaluation(stages.result("after")),
        "paired": difference,
        "updates": trained["updates"],
        "groups": trained["groups"],
        "probe": {
            "attempts": stages.result("probe")["attempts"],
            **{key: value for key, value in stages.result("select").items() if key != "tasks"},
            "selected": len(stages.result("select")["tasks"]),
        },
        "warm_start": stages.result("warm-start"),
        "demonstrations": stages.result("demonstrations"),
        "proofs": {
            key: value for key, value in stages.result("proofs").items() if key != "failures"
        },
        "training_tokens": trained["tokens"],
        "wall_seconds": round(sum(seconds.values()), 1),
        "stages": seconds,
        "hashes": {
            "recipe": recipe.hash,
            "content": recipe.content,
            "suite": stages.result("suite")["hash"],
            "weights": trained["version"]["weights_hash"],
            "attempts_before": digest(folder.path / "before" / "attempts.jsonl"),
            "attempts_after": digest(folder.path / "after" / "attempts.jsonl"),
        },
    }


def _evaluation(found: dict[str, Any]) -> dict[str, Any]:
    return {key: found[key] for key in EVALUATION_KEYS}


def _last_words(
    summary: dict[str, Any], folder: Path, runs: Path, out: Output, narration: Narration
) -> None:
    before, after, pair = summary["before"], summary["after"], summary["paired"]
    low, high = pair["ci95"]
    interval = "no interval: too few tasks" if low is None else f"95 % [{low:+.3f}, {high:+.3f}]"
    out.say("")
    if summary["control"] == "permuted":
        verdict = (
            "the control is significant: something other than the rewards moved the figures"
            if summary["better"]
            else "as it must be: with permuted rewards there is no gain to be seen"
        )
    elif summary["better"]:
        verdict = "the policy got better on tasks that it never trained on"
    else:
        verdict = "not shown: the interval does not lie above zero, so this run proves no gain"
    out.say(
        f"[b]pass@1 {before['pass_at_1']:.3f} → {after['pass_at_1']:.3f}[/b], difference "
        f"{pair['pass_at_1_diff']:+.3f}, {interval}, clustered by {pair['tasks']} tasks"
    )
    out.say(f"[b]{plain(verdict)}[/b]")
    out.say(
        f"Small policies on few tasks: read the interval, not the figure. "
        f"{minutes(summary['wall_seconds'])} in all."
    )
    out.say(f"Look next at   {plain(runs / 'report.html')}")
    out.say(
        f"one attempt    envfarm episode show {plain(summary['run_id'])}.after.w0.0.0.s0.a1 "
        f"--records {plain(folder / 'gateway')}"
    )
    out.say(f"all attempts   {plain(folder)}/after/attempts.jsonl")
