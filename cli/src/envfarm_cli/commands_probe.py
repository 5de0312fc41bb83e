"""`envfarm probe`: how hard is each candidate task for this policy, with as few attempts as it takes."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from envfarm.v1 import policy_pb2
from pydantic import Field

from envfarm_cli.campaign.farm import Farm
from envfarm_cli.campaign.folder import CampaignFolder
from envfarm_cli.campaign.narration import Narration
from envfarm_cli.campaign.opening import (
    DEFAULT_LEARNER,
    DEFAULT_RUNS,
    NAME_PATTERN,
    EngineOption,
    FreshOption,
    LearnerOption,
    ModelOption,
    NameOption,
    RunsOption,
    Services,
    StackOption,
    TagOption,
    campaign_folder,
    parse_tags,
    services,
    services_of,
)
from envfarm_cli.campaign.probing import ProbePlan, probe
from envfarm_cli.campaign.publication import serve_weights
from envfarm_cli.campaign.recipe import Recipe
from envfarm_cli.campaign.served import choose
from envfarm_cli.campaign.stages import Stage, Stages
from envfarm_cli.campaign.training import plain_version
from envfarm_cli.commands_stack import (
    DEFAULT_DOMAINS,
    DEFAULT_STATE,
    DomainsOption,
    JsonOption,
    StateDirOption,
)
from envfarm_cli.evaluation_only import refuse_served
from envfarm_cli.failure import BadInput
from envfarm_cli.output import OK, Output
from envfarm_numbers.jeffreys import BANDS
from envfarm_numbers.probing import StoppingRule

NAMED = 5
"""Tasks without any result that are named one by one; all are in the result."""
AtOnceOption = Annotated[
    int,
    typer.Option(
        help="Attempts of a task in one wave, at least; more save rounds and cost attempts."
    ),
]


class ProbeRecipe(Recipe):
    """What a probe is; its hash names it."""

    name: str = Field(pattern=NAME_PATTERN)
    domain: str
    tags: dict[str, str]
    minimum: int
    cap: int
    confidence: float
    worth: float
    at_once: int = Field(ge=1)
    budget: int = Field(ge=0)
    seed: int = Field(ge=0)
    services: Services

    def rule(self) -> StoppingRule:
        """BadInput when the limits contradict each other."""
        try:
            return StoppingRule(self.minimum, self.cap, self.confidence, self.worth)
        except ValueError as error:
            raise BadInput(f"the probe's limits: {error}") from error


def probe_(
    name: NameOption,
    domain: Annotated[str, typer.Option(help="Candidate tasks of this domain.")] = "",
    tag: TagOption = None,
    minimum: Annotated[int, typer.Option(help="Attempts with reward that every task gets.")] = 3,
    cap: Annotated[int, typer.Option(help="Attempts with reward that no task exceeds.")] = 128,
    confidence: Annotated[
        float, typer.Option(help="Posterior mass of its band at which a task is finished.")
    ] = 0.99,
    worth: Annotated[
        float, typer.Option(help="Attempts that one avoided wrong band is worth.")
    ] = 400.0,
    at_once: AtOnceOption = 1,
    budget: Annotated[int, typer.Option(help="Attempts in all; 0 sets no limit.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of the order and of simulated users.")] = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what it is expected to cost.")
    ] = False,
    stack: StackOption = "running",
    engine: EngineOption = "vllm",
    model: ModelOption = None,
    learner: LearnerOption = DEFAULT_LEARNER,
    runs: RunsOption = DEFAULT_RUNS,
    fresh: FreshOption = False,
    domains: DomainsOption = DEFAULT_DOMAINS,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Find out how hard each candidate task is for the policy in service.

    Attempts come in waves; after each the Jeffreys posterior of a task says whether more can still
    change its difficulty band (0, .08, .40, .60, .90, 1). A task ends by confidence, because more
    would be wasted, at the cap, or when the budget is spent. Attempts that fail by our doing are
    run again and never count. Says first what it is expected to cost; the same command goes on
    after any interruption. `envfarm select` chooses training tasks from the result.

    Example: [b]envfarm probe --name base-probe --domain counter --tag split=train[/b]
    """
    out = Output(json)
    recipe = ProbeRecipe.resolve(
        "envfarm probe",
        {
            "name": name,
            "domain": domain,
            "tags": parse_tags(tag),
            "minimum": minimum,
            "cap": cap,
            "confidence": confidence,
            "worth": worth,
            "at_once": at_once,
            "budget": budget,
            "seed": seed,
            "services": services(stack, engine, model),
        },
    )
    recipe.rule()
    narration = Narration(out, total=2)
    with campaign_folder(runs, name, recipe, fresh=fresh, out=out) as folder:
        stages = Stages(folder.path, recipe.hash)
        if not stages.is_done("bands", ("policy",)):
            narration.stage("services", "the stack that samples, runs the tools and grades")
            with services_of(
                recipe.services,
                folder.path,
                state_dir=state_dir,
                domains=domains,
                say=narration.note,
            ) as farm:
                plan = _plan(recipe, farm, folder, stages, learner.absolute())
                _forecast(plan, narration)
                if dry_run:
                    out.result({"ok": True, "expected_attempts": round(plan.expected_attempts)})
                    return OK
                _run(plan, farm, folder, stages, narration)
        found = stages.result("bands")
    _show(found, folder.path, narration)
    out.result({"ok": True, "folder": str(folder.path), **found})
    return OK


def _plan(
    recipe: ProbeRecipe, farm: Farm, folder: CampaignFolder, stages: Stages, learner: Path
) -> ProbePlan:
    jobs = f"{recipe.name}-{folder.id}"

    def policy() -> dict[str, Any]:
        now = farm.in_service() or serve_weights(farm, jobs, farm.model, folder.path, learner, {})
        tasks = choose(farm.tasks(), recipe.domain, recipe.tags)
        refuse_served(farm.tasks(), tasks, "a probe for training")
        return {"policy": plain_version(now), "tasks": tasks}

    begun = stages.run(Stage(name="policy", work=policy))
    return ProbePlan(
        name=jobs,
        tasks=begun["tasks"],
        rule=recipe.rule(),
        at_once=recipe.at_once,
        budget=recipe.budget,
        seed=recipe.seed,
        run_id=begun["policy"]["run_id"],
        policy=policy_pb2.PolicyVersion(**begun["policy"]),
    )


def _forecast(plan: ProbePlan, narration: Narration) -> None:
    expected = plan.expected_attempts
    limit = f", at most {plan.budget} by the budget" if plan.budget else ""
    narration.say(
        f"{len(plan.tasks)} tasks; expected cost {expected:.0f} attempts{limit}; "
        f"{len(plan.tasks) * plan.rule.cap} if every task went to the cap"
    )


def _run(
    plan: ProbePlan, farm: Farm, folder: CampaignFolder, stages: Stages, narration: Narration
) -> None:
    narration.stage("attempts", "in waves, until the posterior of each task is sure of its band")

    def work() -> dict[str, Any]:
        with narration.meter("attempts", round(plan.expected_attempts)) as meter:
            tasks = probe(plan, farm, folder.path, meter)
        return {
            "tasks": tasks,
            "attempts": sum(task["clean"] + task["excused"] for task in tasks),
            "bands": {band: sum(task["band"] == band for task in tasks) for band in BANDS},
        }

    path = folder.path / "attempts.jsonl"
    stages.run(Stage(name="bands", needs=("policy",), work=work, files=(path,)))


def _show(found: dict[str, Any], folder: Path, narration: Narration) -> None:
    shares = ", ".join(f"{band} {count}" for band, count in found["bands"].items())
    narration.say(f"{len(found['tasks'])} tasks in {found['attempts']} attempts: {shares}")
    reasons = Counter(task["stopped"] for task in found["tasks"])
    ended = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
    narration.say(f"why they ended: {ended}")
    unrewarded = [task["task_id"] for task in found["tasks"] if not task["clean"]]
    if unrewarded:
        more = f" and {len(unrewarded) - NAMED} more" if len(unrewarded) > NAMED else ""
        narration.say(f"no attempt with a reward: {', '.join(unrewarded[:NAMED])}{more}")
    narration.note(f"look next at {folder}/attempts.jsonl; `envfarm select` chooses from it")
