"""The demonstration's experiment: probe and select, evaluate, train, evaluate again."""

from typing import Any

from envfarm_cli.campaign import served
from envfarm_cli.campaign.curves import curves, read_steps
from envfarm_cli.campaign.evaluation import Plan, evaluate
from envfarm_cli.campaign.farm import Farm
from envfarm_cli.campaign.figures import Evaluated, line, plain_results, tokens
from envfarm_cli.campaign.files import write_durably, write_json
from envfarm_cli.campaign.probing import ProbePlan, probe
from envfarm_cli.campaign.stages import Stage
from envfarm_cli.campaign.training import TrainPlan, train
from envfarm_cli.campaign.waves import read_rows, rows_path
from envfarm_cli.demo.context import DemoContext
from envfarm_cli.demo.selection import select_tasks
from envfarm_numbers.probing import StoppingRule
from envfarm_numbers.suite import Suite


def probe_and_select(context: DemoContext, farm: Farm) -> None:
    """How hard each training task is for the warmed-up policy, and which are worth training on."""
    recipe = context.recipe
    train_tasks = spread(
        served.choose(farm.tasks(), recipe.domain, {"split": "train"}), recipe.probe.tasks
    )
    plan = ProbePlan(
        name=f"{recipe.run_id}.probe",
        tasks=train_tasks,
        rule=StoppingRule(
            minimum=recipe.probe.minimum, cap=recipe.probe.cap, worth=recipe.probe.worth
        ),
        at_once=recipe.probe.at_once,
        budget=0,
        seed=recipe.seed,
        run_id=recipe.run_id,
        policy=context.version(0),
    )
    context.say(
        "probe and select",
        f"{len(train_tasks)} training tasks, each attempted until its difficulty band is clear; "
        f"about {plan.expected_attempts:.0f} attempts expected. Tasks that it always or never "
        "solves teach nothing and are left out",
        about="1 min",
    )

    def work() -> dict[str, Any]:
        with context.narration.meter("attempts", round(plan.expected_attempts)) as meter:
            found = probe(plan, farm, context.path / "probe", meter)
        return {"tasks": found, "attempts": sum(t["clean"] + t["excused"] for t in found)}

    probed = context.once(
        "probe", work, needs=("warm-start",), files=(context.path / "probe" / "attempts.jsonl",)
    )
    selected = context.once(
        "select",
        lambda: select_tasks(served.facts(farm.tasks(), train_tasks), context.path, recipe),
        needs=("probe",),
        files=(context.path / "selection" / "manifest.json",),
    )
    context.narration.say(
        f"{probed['attempts']} attempts; {len(selected['tasks'])} tasks selected: "
        + ", ".join(f"{band} {count}" for band, count in selected["bands"].items())
    )
    if selected["all_taken"]:
        context.narration.note(
            "too few lie between always and never solved, so all of them are trained on"
        )


def evaluate_suite(context: DemoContext, farm: Farm, name: str, version: int) -> None:
    """All held-out tasks at one pinned version; `name` is before or after."""
    suite = frozen_suite(context, farm)
    k = context.recipe.evaluation.k
    context.say(
        f"evaluate {name} training",
        f"{len(suite.tasks)} held-out tasks × {k} attempts, each in a fresh database; never "
        "trained on, the same suite and seed before and after",
        about="1 min",
    )
    plan = Plan(
        name=f"{context.recipe.run_id}.{name}",
        suite=suite,
        k=k,
        seed=context.recipe.seed,
        run_id=context.recipe.run_id,
        policy=context.version(version),
    )
    path = context.path / name

    def work() -> dict[str, Any]:
        with context.narration.meter("attempts", len(plan.keys)) as meter:
            rows = evaluate(plan, farm, path, meter)
        results = Evaluated.read(path / "attempts.jsonl").results
        return {
            **plain_results(results, len(rows)),
            "tokens": tokens(rows),
            "policy_number": version,
            "suite_hash": suite.hash,
        }

    needs = ("warm-start",) if name == "before" else ("train", "before")
    context.once(name, work, needs=needs, files=(path / "attempts.jsonl",))
    for estimate in Evaluated.read(path / "attempts.jsonl").results.headline():
        context.narration.say(line(estimate))


def train_policy(context: DemoContext, farm: Farm) -> None:
    """GRPO through gateway, stream and learner; each version goes back into the engine."""
    recipe, wanted = context.recipe, context.recipe.train
    tasks = context.stages.result("select")["tasks"]
    context.say(
        "train",
        f"GRPO: {wanted.updates} updates of {wanted.groups_per_update} groups × "
        f"{wanted.group_size} attempts on {len(tasks)} tasks; each update gives vLLM new weights"
        + (
            "; CONTROL: rewards are permuted in each group"
            if (context.recipe.control == "permuted")
            else ""
        ),
        about="6 min",
    )
    plan = TrainPlan(
        run_id=recipe.run_id,
        tasks=tasks,
        updates=wanted.updates,
        groups_per_update=wanted.groups_per_update,
        group_size=wanted.group_size,
        staleness=wanted.staleness,
        seed=recipe.seed,
        recipe=context.learner,
        overrides={
            **recipe.learner_overrides(),
            "model": {
                **recipe.learner_overrides()["model"],
                "path": str(context.warm_model),
            },
        },
        max_replacements=wanted.max_replacements,
    )
    folder = context.path / "training"

    def work() -> dict[str, Any]:
        with context.narration.meter("updates", wanted.updates) as meter:
            found = train(plan, farm, folder, meter)
        rows = read_rows(rows_path(farm.records, f"{recipe.run_id}.train"))
        write_json(folder / "curves.json", curves(read_steps(folder / "learner"), rows))
        return {**found, "tokens": tokens(rows)}

    done = context.once(
        "train", work, needs=("warm-start", "select"), files=(folder / "curves.json",)
    )
    groups = done["groups"]
    context.narration.say(
        f"{groups['published']} groups published, {groups['replaced_zero_variance']} replaced "
        f"because all rewards were equal, {groups['refilled_samples']} attempts run again"
    )


def frozen_suite(context: DemoContext, farm: Farm) -> Suite:
    """The held-out tasks at their content hashes; the same before and after."""
    path = context.path / "suite.json"

    def work() -> dict[str, Any]:
        tasks = farm.tasks()
        ids = served.choose(tasks, context.recipe.domain, {"split": "eval"})
        suite = served.freeze("demo", tasks, spread(ids, context.recipe.evaluation.tasks))
        write_durably(path, suite.to_json().encode())
        return {"hash": suite.hash, "tasks": len(suite.tasks)}

    context.stages.run(Stage(name="suite", work=work, files=(path,)))
    return Suite.read(path)


def spread(ids: list[str], wanted: int) -> list[str]:
    """`wanted` of them (all for 0), evenly over the workflows, which follow each other in id order."""
    count = min(wanted or len(ids), len(ids))
    return [ids[number * len(ids) // count] for number in range(count)]
