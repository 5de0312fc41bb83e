"""The end of the demonstration: summary.json, the reports, and the last words on the terminal."""

import shutil
from pathlib import Path
from typing import Any

from envfarm_cli.campaign.files import read_json, write_durably, write_json
from envfarm_cli.campaign.folder import CampaignFolder
from envfarm_cli.campaign.narration import Narration, minutes
from envfarm_cli.campaign.stages import Stage, Stages
from envfarm_cli.campaign.waves import rows_path
from envfarm_cli.demo.proof import write_proof
from envfarm_cli.demo.recipe import DemoRecipe
from envfarm_cli.demo.report import document, verdict
from envfarm_cli.demo.summary import summarize
from envfarm_cli.output import OK, plain
from envfarm_numbers.report import html, markdown

NOT_BETTER = 3
"""Exit code of a demonstration whose interval does not lie above zero."""
REPORTS = ("report.html", "report.md", "summary.json")


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
    path = folder.path

    def work() -> dict[str, Any]:
        records = rows_path(path / "gateway", f"{recipe.run_id}.train")
        summary = summarize(stages, path, recipe, records)
        report = document(summary)
        write_json(path / "summary.json", summary)
        write_durably(path / "report.html", html.render(report).encode())
        write_durably(path / "report.md", markdown.render(report).encode())
        return {"better": summary["better"]}

    files = tuple(path / name for name in REPORTS)
    stages.run(Stage(name="report", needs=("before", "train", "after"), work=work, files=files))
    runs.mkdir(parents=True, exist_ok=True)
    for name in REPORTS:
        shutil.copyfile(path / name, runs / name)
    summary = read_json(path / "summary.json")
    if proof:
        write_proof(proof, summary)
    _last_words(summary, path, runs, narration)
    narration.out.result({"ok": summary["better"], **summary})
    return OK if summary["better"] else NOT_BETTER


def _last_words(summary: dict[str, Any], folder: Path, runs: Path, narration: Narration) -> None:
    before, after, pair = summary["before"], summary["after"], summary["paired"]
    low, high = pair["ci95"]
    interval = "no interval" if low is None else f"95 % interval {low:+.3f} to {high:+.3f}"
    out = narration.out
    out.say("")
    out.say(
        f"[b]pass@1 {before['pass_at_1']:.3f} → {after['pass_at_1']:.3f}[/b]   difference "
        f"{pair['pass_at_1_diff']:+.3f}, {interval}, paired by {pair['tasks']} tasks"
    )
    for key, what in (("observed_k", "solved every time"), ("ever_passed", "solved at least once")):
        out.say(f"{what}: {before[key]:.1%} → {after[key]:.1%} of tasks")
    out.say(f"[b]{plain(verdict(summary))}[/b]")
    out.say(
        f"[dim]A small policy on few tasks: read the interval, not the figure. "
        f"{minutes(summary['wall_seconds'])} in all.[/dim]"
    )
    attempt = f"{summary['run_id']}.after.w0.0.0.s0.a1"
    out.say("")
    out.say(f"the report     {plain(runs / 'report.html')}")
    out.say(
        f"an attempt     envfarm episode show {plain(attempt)} --records {plain(folder / 'gateway')}"
    )
    out.say(f"every attempt  {plain(folder)}/after/attempts.jsonl")
    out.say("what it is     README.md; the rules that it learned: domains/counter/world/policy.md")
