"""`envfarm train RUN.toml`: a training run from preflight to report, resumable at any point."""

from pathlib import Path
from typing import Annotated, Any

import typer
from envfarm.v1 import policy_pb2

from envfarm_cli.campaign import preflight as checks
from envfarm_cli.campaign import served
from envfarm_cli.campaign.curves import curves, read_steps
from envfarm_cli.campaign.farm import Farm
from envfarm_cli.campaign.files import write_json
from envfarm_cli.campaign.folder import CampaignFolder
from envfarm_cli.campaign.narration import Narration
from envfarm_cli.campaign.opening import (
    DEFAULT_RUNS,
    EngineOption,
    FreshOption,
    ModelOption,
    RunsOption,
    Where,
    campaign_folder,
    services,
    services_of,
)
from envfarm_cli.campaign.run_recipe import RunRecipe
from envfarm_cli.campaign.run_report import best, write_report
from envfarm_cli.campaign.stages import Stage, Stages
from envfarm_cli.campaign.training import TrainPlan, Validation, train
from envfarm_cli.campaign.waves import read_rows, rows_path
from envfarm_cli.commands_stack import (
    DEFAULT_DOMAINS,
    DEFAULT_STATE,
    DomainsOption,
    JsonOption,
    StateDirOption,
)
from envfarm_cli.evaluation_only import refuse_served
from envfarm_cli.launching import Kind, Launch
from envfarm_cli.learner_config import merge
from envfarm_cli.output import OK, Output
from envfarm_numbers.selection_files import SelectedTasks
from envfarm_numbers.suite import Suite


def train_(
    run: Annotated[Path, typer.Argument(help="The run's recipe, a TOML file.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override one key, SECTION.KEY=VALUE. Repeatable."),
    ] = None,
    stack: Annotated[
        Where | None, typer.Option("--stack", help="Instead of the recipe's: running or own.")
    ] = None,
    engine: EngineOption = "vllm",
    model: ModelOption = None,
    launcher: Annotated[
        Kind, typer.Option("--launcher", help="Who starts the learner's ranks.")
    ] = "local",
    nodes: Annotated[int, typer.Option(min=1, help="Machines of the learner.")] = 1,
    gpus: Annotated[int, typer.Option(min=1, help="Ranks on each machine, one for a GPU.")] = 1,
    hostfile: Annotated[
        Path | None, typer.Option(help="Of deepspeed: a line `HOST slots=N` for each machine.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only resolve the recipe and print it with its hash.")
    ] = False,
    runs: RunsOption = DEFAULT_RUNS,
    fresh: FreshOption = False,
    domains: DomainsOption = DEFAULT_DOMAINS,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Train by a recipe: preflight, groups from the gateway, a learner, validations, a report.

    The run has a folder runs/NAME with its resolved and hashed recipe. Before it starts, tasks,
    proofs, capacity, memory and disk are looked at. Validations run at pinned versions without
    stopping the training. Stop it whenever you like: the same command goes on at the last
    checkpoint, and no group is lost or used twice. The report names the best version by
    validation beside the last one.

    The learner may have many ranks: --launcher torchrun on this machine, slurm within an allocation,
    deepspeed on the machines of a hostfile. Before they train they compare versions, recipe, model
    and disk; one that fails ends all, and the same command goes on, on another number of GPUs, too.

    Example: [b]envfarm train RUN.toml --set train.updates=50[/b]
    """
    out = Output(json)
    launch = Launch(kind=launcher, nodes=nodes, ranks_per_node=gpus, hostfile=hostfile)
    chosen = services(stack, engine, model) if stack else None
    recipe = RunRecipe.load(run, settings or [], chosen)
    if dry_run:
        out.console.print_json(data=recipe.plain())
        out.result({"ok": True, "recipe_hash": recipe.hash, "recipe": recipe.plain()})
        return OK
    narration = Narration(out, total=4)
    with campaign_folder(runs, recipe.name, recipe, fresh=fresh, out=out) as folder:
        stages = Stages(folder.path, recipe.hash)
        narration.beat = stages.beat
        if not stages.is_done("train"):
            narration.stage("services", "the stack that samples, runs the tools and grades")
            with services_of(
                recipe.services,
                folder.path,
                state_dir=state_dir,
                domains=domains,
                say=narration.note,
            ) as farm:
                Run(recipe, farm, folder, stages, narration, launch).go()
        narration.stage("report", "curves, validations, what became of every group")
        summary = write_report(recipe, stages, folder.path)
    _last_words(summary, folder.path, narration)
    out.result({"ok": True, "folder": str(folder.path), **summary})
    return OK


class Run:
    """One start of a training run."""

    def __init__(
        self,
        recipe: RunRecipe,
        farm: Farm,
        folder: CampaignFolder,
        stages: Stages,
        narration: Narration,
        launch: Launch,
    ):
        self.recipe, self.farm, self.path = recipe, farm, folder.path
        self.launch = launch
        self.run_id = f"{recipe.name}-{folder.id}"
        self.stages, self.narration = stages, narration
        self.model = Path(recipe.model) if recipe.model else farm.model
        self.selected: SelectedTasks | None = None

    def go(self) -> None:
        tasks = self._pool()
        refuse_served(self.farm.tasks(), tasks, "training")
        self.narration.stage("preflight", "tasks, proofs, capacity, memory, disk")
        for finding in checks.preflight(self.recipe, self.farm, self.path, tasks, self.model):
            self.narration.note(f"{finding.name}: {finding.found}")
        plan = self._plan(tasks)
        wanted = self.recipe.train
        self.narration.stage(
            "train",
            f"{wanted.updates} updates of {wanted.groups_per_update} groups × {wanted.group_size} "
            f"attempts on {len(tasks)} tasks",
        )

        def work() -> dict[str, Any]:
            with self.narration.meter("updates", wanted.updates) as meter:
                found = train(plan, self.farm, self.path, meter, self._begun)
            rows = read_rows(rows_path(self.farm.records, f"{plan.run_id}.train"))
            write_json(self.path / "curves.json", curves(read_steps(self.path / "learner"), rows))
            return found

        self.stages.run(Stage(name="train", work=work, files=(self.path / "curves.json",)))

    def _pool(self) -> list[str]:
        """The tasks of the recipe; a selection's contents must be those that are served."""
        wanted = self.recipe.tasks
        tasks = self.farm.tasks()
        if not wanted.selection:
            return served.choose(tasks, wanted.domain, wanted.tags)
        self.selected = SelectedTasks.read(Path(wanted.selection))
        served.check(Suite("selection", self.selected.tasks, {}), tasks)
        return sorted(self.selected.tasks)

    def _begun(self, version: policy_pb2.PolicyVersion) -> None:
        """Warn when the tasks were probed with other weights than the run starts from."""
        if self.selected and version.number == 0:
            warning = self.selected.policy_warning(version.weights_hash)
            if warning:
                self.narration.say(f"warning: {warning}")

    def _plan(self, tasks: list[str]) -> TrainPlan:
        recipe, wanted = self.recipe, self.recipe.train
        return TrainPlan(
            run_id=self.run_id,
            tasks=tasks,
            updates=wanted.updates,
            groups_per_update=wanted.groups_per_update,
            group_size=wanted.group_size,
            staleness=wanted.staleness,
            seed=recipe.seed,
            recipe=Path(recipe.learner).absolute(),
            overrides=merge(
                recipe.overrides,
                {"": {"seed": recipe.seed}, "model": {"path": str(self.model.absolute())}},
            ),
            max_replacements=wanted.max_replacements,
            reband_after=wanted.reband_after,
            updates_per_version=wanted.updates_per_version,
            validation=self._validation(),
            launch=self.launch,
        )

    def _validation(self) -> Validation | None:
        wanted = self.recipe.validation
        if wanted is None:
            return None
        tasks = self.farm.tasks()
        if wanted.suite:
            suite = Suite.read(Path(wanted.suite), biased=True)
            served.check(suite, tasks)
        else:
            chosen = served.choose(tasks, wanted.domain, wanted.tags)
            suite = served.freeze("validation", tasks, chosen)
        return Validation(suite=suite, k=wanted.k, every=wanted.every)


def _last_words(summary: dict[str, Any], folder: Path, narration: Narration) -> None:
    groups = summary["groups"]
    narration.say(
        f"{summary['updates']} updates; {groups['published']} groups published, "
        f"{groups['replaced_zero_variance']} replaced because all rewards were equal, "
        f"{groups['refilled_samples']} attempts run again"
    )
    if summary["validations"]:
        top, last = best(summary["validations"]), summary["validations"][-1]
        narration.say(
            f"validation pass@1: best {top['pass_at_1']:.3f} at version {top['version']}, last "
            f"{last['pass_at_1']:.3f} at version {last['version']}; ever passed "
            f"{last['ever_passed']} and always passed {last['always_passed']} of {last['tasks']} tasks"
        )
    narration.note(
        f"look next at {folder}/report.md, {folder}/learner/weights, {folder}/curves.json"
    )
