"""`envfarm eval`: a frozen suite, N tasks × k repetitions, figures with their intervals."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from envfarm.v1 import policy_pb2
from pydantic import Field

from envfarm_cli.campaign import served
from envfarm_cli.campaign.evaluation import Plan, evaluate
from envfarm_cli.campaign.farm import Farm
from envfarm_cli.campaign.figures import Evaluated, line, plain_results, tokens
from envfarm_cli.campaign.files import write_durably
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
    Where,
    campaign_folder,
    parse_tags,
    services,
    services_of,
)
from envfarm_cli.campaign.publication import serve_weights
from envfarm_cli.campaign.recipe import Recipe
from envfarm_cli.campaign.stages import Stage, Stages
from envfarm_cli.campaign.training import plain_version
from envfarm_cli.commands_stack import (
    DEFAULT_DOMAINS,
    DEFAULT_STATE,
    DomainsOption,
    JsonOption,
    StateDirOption,
)
from envfarm_cli.failure import BadInput
from envfarm_cli.output import OK, Output, plain
from envfarm_cli.service_specs import Engine
from envfarm_numbers.benchmarks import BENCH
from envfarm_numbers.estimators import Estimate
from envfarm_numbers.suite import Suite

Interface = Literal["tokens", "chat"]
CHAT: Interface = "chat"
BENCH_SUITE = "thinkingbox-bench"
"""What people call it on the command line."""
InterfaceOption = Annotated[
    Interface,
    typer.Option(
        help="[b]tokens[/b]: our engines. [b]chat[/b]: the OpenAI-compatible endpoint of "
        "GATEWAY_CHAT_URL, GATEWAY_CHAT_MODEL and GATEWAY_CHAT_KEY; its rows are marked so and "
        "are not paired with rows of the other kind.",
    ),
]


class EvalRecipe(Recipe):
    """What an evaluation is; its hash names it."""

    name: str = Field(pattern=NAME_PATTERN)
    domain: str
    tags: dict[str, str]
    suite: dict[str, str]
    """Of a suite file: its tasks and hashes; empty when the suite is frozen from the domain, which may
    be a whole benchmark by its name."""
    biased: bool
    """Its tasks were selected by looking at results; the headline says so."""
    interface: Interface
    k: int = Field(ge=1, le=1024)
    seed: int = Field(ge=0)
    services: Services


def eval_(
    name: NameOption,
    domain: Annotated[str, typer.Option(help="Tasks of this domain.")] = "",
    tag: TagOption = None,
    suite: Annotated[
        Path | None,
        typer.Option(
            help="A frozen suite, such as another evaluation's suite.json; or "
            "[b]thinkingbox-bench[/b], all of ThinkingBox-Bench v1 as it is served."
        ),
    ] = None,
    biased_suite: Annotated[
        bool,
        typer.Option(
            "--biased-suite",
            help="Take tasks that were selected by results, such as a selection's train.json; the "
            "headline then says so.",
        ),
    ] = False,
    k: Annotated[int, typer.Option("-k", min=1, max=1024, help="Repetitions of each task.")] = 20,
    interface: InterfaceOption = "tokens",
    seed: Annotated[int, typer.Option(min=0, help="Of the order and of simulated users.")] = 1,
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
    """Evaluate the policy in service: N tasks × k repetitions, each with a fresh database.

    The suite is frozen first, with the content hash of every task, and the policy version is fixed:
    the figures are of exactly these. An attempt that fails by our doing has no reward and is run
    again; no figure is given before every repetition has a reward. Stop it at any time: the same
    command goes on, runs what is missing and nothing else.

    Writes suite.json, attempts.jsonl and results/figures.json to runs/NAME.

    Example: [b]envfarm eval --name base --domain counter --tag split=eval -k 8[/b]

    Example: [b]envfarm eval --name other --suite suites/held-out.json --interface chat --stack own[/b]
    """
    out = Output(json)
    is_bench = str(suite) == BENCH_SUITE
    if is_bench and (domain or tag or biased_suite):
        raise BadInput(f"--suite {BENCH_SUITE} is a whole benchmark; leave out what would choose")
    recipe = EvalRecipe.resolve(
        "envfarm eval",
        {
            "name": name,
            "domain": BENCH if is_bench else domain,
            "tags": parse_tags(tag),
            "suite": Suite.read(suite, biased=biased_suite).tasks if suite and not is_bench else {},
            "biased": biased_suite,
            "interface": interface,
            "k": k,
            "seed": seed,
            "services": services(stack, _engine(stack, engine, interface), model),
        },
    )
    narration = Narration(out, total=2)
    with campaign_folder(runs, name, recipe, fresh=fresh, out=out) as folder:
        stages = Stages(folder.path, recipe.hash)
        if not stages.is_done("figures", ("policy", "attempts")):
            narration.stage("services", "the stack that samples, runs the tools and grades")
            with services_of(
                recipe.services,
                folder.path,
                state_dir=state_dir,
                domains=domains,
                say=narration.note,
            ) as farm:
                _run(recipe, farm, folder, stages, narration, learner.absolute())
        figures = stages.result("figures")
    _show(figures, folder.path, narration)
    out.result({"ok": True, "folder": str(folder.path), **figures})
    return OK


def _run(
    recipe: EvalRecipe,
    farm: Farm,
    folder: CampaignFolder,
    stages: Stages,
    narration: Narration,
    learner: Path,
) -> None:
    path = folder.path / "suite.json"
    jobs = f"{recipe.name}-{folder.id}"

    def freeze() -> dict[str, Any]:
        tasks = farm.tasks()
        if recipe.suite:
            suite = Suite(recipe.name, recipe.suite, {}, biased=recipe.biased)
            served.check(suite, tasks)
        elif recipe.domain == BENCH:
            suite = served.freeze(recipe.name, tasks, served.choose_benchmark(tasks, BENCH))
        else:
            chosen = served.choose(tasks, recipe.domain, recipe.tags)
            suite = served.freeze(recipe.name, tasks, chosen)
        write_durably(path, suite.to_json().encode())
        return {"hash": suite.hash, "tasks": len(suite.tasks), "warning": suite.warning}

    def policy() -> dict[str, Any]:
        if recipe.interface == CHAT:
            asked = farm.chat_endpoint()
            return {"url": asked.url, "model": asked.model, "sampling_hash": asked.sampling_hash}
        now = farm.in_service() or serve_weights(farm, jobs, farm.model, folder.path, learner, {})
        return plain_version(now)

    def attempts() -> dict[str, Any]:
        with narration.meter("attempts", len(suite.tasks) * recipe.k) as meter:
            found = evaluate(plan, farm, folder.path, meter)
        return tokens(found)

    frozen = stages.run(Stage(name="suite", work=freeze, files=(path,)))
    suite = Suite.read(path)
    pinned = stages.run(Stage(name="policy", work=policy))
    in_chat = recipe.interface == CHAT
    if in_chat:
        _require_same(pinned, farm)
    who = (
        f"by {pinned['model']} at {pinned['url']}"
        if in_chat
        else f"at version {pinned['number']} of {pinned['run_id']}"
    )
    narration.stage("attempts", f"{len(suite.tasks)} tasks × {recipe.k} repetitions {who}")
    plan = Plan(
        name=jobs,
        suite=suite,
        k=recipe.k,
        seed=recipe.seed,
        run_id=jobs if in_chat else pinned["run_id"],
        policy=None if in_chat else policy_pb2.PolicyVersion(**pinned),
        interface=CHAT if in_chat else "",
    )
    rows = folder.path / "attempts.jsonl"
    stages.run(Stage(name="attempts", needs=("suite", "policy"), work=attempts, files=(rows,)))

    def figures() -> dict[str, Any]:
        used = stages.result("attempts")
        return {
            "policy": pinned,
            "interface": recipe.interface,
            "suite_hash": suite.hash,
            "warning": frozen["warning"],
            "seed": recipe.seed,
            **plain_results(Evaluated.read(rows).results, used["attempts"]),
            "tokens": used,
        }

    stages.run(Stage(name="figures", needs=("policy", "attempts"), work=figures))


def _engine(stack: Where, engine: Engine, interface: Interface) -> Engine:
    """A private stack of an evaluation by chat needs no engine."""
    return "none" if interface == CHAT and stack == "own" else engine


def _require_same(pinned: dict[str, Any], farm: Farm) -> None:
    """BadInput when the endpoint is not the one that the evaluation began with."""
    now = farm.chat_endpoint()
    if (now.model, now.sampling_hash) != (pinned["model"], pinned["sampling_hash"]):
        raise BadInput(
            f"the evaluation began with {pinned['model']}, and the gateway now asks {now.model}, or "
            "with other parameters",
            hint="set GATEWAY_CHAT_* as they were, or choose another --name",
        )


def _show(figures: dict[str, Any], folder: Path, narration: Narration) -> None:
    if figures["warning"]:
        narration.out.say(f"  [b]{plain(figures['warning'])}[/b]")
    for value in figures["estimates"]:
        estimate = Estimate(**value)
        narration.say(line(estimate))
        narration.note(f"  {estimate.estimator}; {estimate.interval}")
    narration.note(
        f"{figures['attempts']} attempts, {figures['tokens']['wasted_attempts']} without a reward "
        "were run again; an attempt without a reward never counts as failed"
    )
    narration.note(f"look next at {folder}, and compare: envfarm compare A B")
