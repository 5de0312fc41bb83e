"""summary.json of the demonstration: everything that its reports show, and nothing else."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envfarm_cli.campaign.figures import tokens
from envfarm_cli.campaign.files import digest, read_json
from envfarm_cli.campaign.stages import Stages
from envfarm_cli.campaign.waves import read_rows
from envfarm_cli.demo.recipe import DemoRecipe
from envfarm_numbers.comparison import Comparison, Side, compare_campaigns
from envfarm_numbers.ledger import ledger, training_cost
from envfarm_numbers.prices import PriceSheet
from envfarm_numbers.rows import read_campaign

PRICES = Path(__file__).with_name("prices.toml")
PART = re.compile(r"-\d+$")
STAGE_ORDER = (
    "model",
    "stack",
    "proofs",
    "demonstrations",
    "warm-start",
    "serve",
    "probe",
    "select",
    "suite",
    "before",
    "train",
    "after",
)


def summarize(stages: Stages, folder: Path, recipe: DemoRecipe, records: Path) -> dict[str, Any]:
    """`records` is the attempts.jsonl of the training job."""
    comparison = compare_campaigns(
        read_campaign(folder / "before" / "attempts.jsonl"),
        read_campaign(folder / "after" / "attempts.jsonl"),
        names=("before", "after"),
        sheet=PriceSheet.read(PRICES),
    )
    trained, selected = stages.result("train"), stages.result("select")
    first = comparison.paired.differences[0]
    seconds = _by_stage(stages.seconds)
    starts = _by_stage({name: stages.starts(name) for name in stages.seconds})
    return {
        "seed": recipe.seed,
        "control": recipe.control,
        "minutes": recipe.minutes,
        "run_id": recipe.run_id,
        "better": first.low is not None and first.low > 0,
        "before": _evaluation(comparison.a),
        "after": _evaluation(comparison.b),
        "paired": {
            "pass_at_1_diff": first.value,
            "ci95": [first.low, first.high],
            "p_value": first.p_value,
            "tasks": first.tasks,
            "interval": first.interval,
        },
        "updates": trained["updates"],
        "groups": trained["groups"],
        "wall_seconds": round(sum(seconds.values()), 1),
        "stages": seconds,
        "starts": starts,
        "proofs": stages.result("proofs"),
        "demonstrations": stages.result("demonstrations"),
        "warm_start": _short(stages.result("warm-start")),
        "probe": {
            "attempts": stages.result("probe")["attempts"],
            "selected": len(selected["tasks"]),
            **_without(selected, "tasks"),
        },
        "tokens": {
            "probe": tokens(read_rows(folder / "probe" / "attempts.jsonl")),
            "before": tokens(comparison.a.rows),
            "training": tokens(read_rows(records)),
            "after": tokens(comparison.b.rows),
        },
        "cost": _cost(comparison, records, folder, seconds),
        "comparison": comparison.to_dict(),
        "curves": read_json(folder / "training" / "curves.json"),
        "hashes": {
            "recipe": recipe.hash,
            "content": recipe.content,
            "suite": stages.result("suite")["hash"],
            "weights_before": _weights(comparison.a),
            "weights_after": _weights(comparison.b),
            "attempts_before": digest(folder / "before" / "attempts.jsonl"),
            "attempts_after": digest(folder / "after" / "attempts.jsonl"),
        },
    }


def _by_stage(found: Mapping[str, float]) -> dict[str, float]:
    """Parts such as proofs-3 together, in the order of the demonstration."""
    total: dict[str, float] = {}
    for name in STAGE_ORDER:
        parts = [value for key, value in found.items() if PART.sub("", key) == name]
        if parts:
            total[name] = round(sum(parts), 1)
    return total


def _evaluation(side: Side) -> dict[str, Any]:
    found = side.results
    return {
        "pass_at_1": found.pass_at_1.value,
        "pass_at_k": found.pass_at_k.value,
        "observed_k": found.observed_all.value,
        "ever_passed": found.ever_passed.value,
        "k": found.repetitions,
        "tasks": found.tasks,
        "attempts": len(side.rows),
        "ci95": {
            name: [estimate.low, estimate.high]
            for name, estimate in (
                ("pass_at_1", found.pass_at_1),
                ("pass_at_k", found.pass_at_k),
                ("observed_k", found.observed_all),
                ("ever_passed", found.ever_passed),
            )
        },
    }


def _cost(
    comparison: Comparison, records: Path, folder: Path, seconds: dict[str, float]
) -> dict[str, Any]:
    """Probing, training and evaluation each apart."""
    sheet = PriceSheet.read(PRICES)
    evaluated = {side.name: side.ledger for side in (comparison.a, comparison.b)}
    rows = {"probe": folder / "probe" / "attempts.jsonl", "training": records}
    ledgers = {name: ledger(read_rows(path), sheet, dependable=0) for name, path in rows.items()}
    busy = seconds.get("train", 0.0) + seconds.get("warm-start", 0.0)
    return {
        "attempts": {
            **{name: found.all.cost for name, found in ledgers.items()},
            **{name: found.all.cost for name, found in evaluated.items() if found},
        },
        "machine": training_cost(busy, sheet).cost,
        "currency": sheet.currency,
        "prices_of": f"{sheet.date.isoformat()}, {sheet.source}",
    }


def _weights(side: Side) -> str:
    return next(iter({row.policy_hash for row in side.rows if row.policy_hash}), "")


def _without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in names}


def _short(fitted: dict[str, Any]) -> dict[str, Any]:
    """What people ask of the supervised training, without paths."""
    wanted = ("steps", "epochs", "conversations", "first_loss", "last_loss", "tokens", "seconds")
    return {key: fitted[key] for key in wanted if key in fitted}
