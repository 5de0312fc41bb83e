"""What every campaign command shares: its name, its folder, and the services it runs on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from envfarm_cli.campaign.farm import Farm, private_farm, running_farm
from envfarm_cli.campaign.folder import CampaignFolder, put_aside
from envfarm_cli.campaign.recipe import Part, Recipe
from envfarm_cli.failure import BadInput
from envfarm_cli.output import Output, plain
from envfarm_cli.service_specs import Engine, StackOptions
from envfarm_cli.state_dir import StateDir

Where = Literal["running", "own"]
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$"

NameOption = Annotated[str, typer.Option("--name", help="Names the campaign, its folder and jobs.")]
RunsOption = Annotated[Path, typer.Option("--runs", help="Where campaigns have their folders.")]
FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Put an earlier campaign of this name aside; begin anew.")
]
StackOption = Annotated[
    Where,
    typer.Option(
        "--stack",
        help="[b]running[/b]: the stack that `envfarm up` started; [b]own[/b]: a private one for "
        "this campaign, in its folder, stopped at its end.",
    ),
]
EngineOption = Annotated[Engine, typer.Option(help="Of a private stack; see `envfarm up --help`.")]
ModelOption = Annotated[
    Path | None,
    typer.Option(help="Model folder of a private stack; without it a tiny model is made once."),
]
LearnerOption = Annotated[
    Path,
    typer.Option(
        "--learner", help="The learner's configuration; it also puts first weights into service."
    ),
]
TagOption = Annotated[
    list[str] | None, typer.Option("--tag", help="Only tasks with this tag, KEY=VALUE. Repeatable.")
]
DEFAULT_RUNS = Path("runs")
DEFAULT_LEARNER = Path("learner/configs/tiny-cpu.toml")


class Services(Part):
    """Where a campaign runs; part of its recipe, because another engine gives other numbers."""

    stack: Where
    engine: Engine
    model: str
    """Folder; empty for the stack's own."""


def services(stack: Where, engine: Engine, model: Path | None) -> Services:
    """BadInput when the model cannot be used."""
    if stack == "running" and (model or engine != "vllm"):
        raise BadInput(
            "--engine and --model belong to --stack own", hint="give them to `envfarm up` instead"
        )
    if model and not (model / "config.json").is_file():
        raise BadInput(f"--model {model}: there is no config.json in it")
    return Services(stack=stack, engine=engine, model=str(model.absolute()) if model else "")


def campaign_folder(
    runs: Path, name: str, recipe: Recipe, *, fresh: bool, out: Output
) -> CampaignFolder:
    """The folder runs/<name>, not entered yet."""
    path = runs / name
    if fresh and (aside := put_aside(path)):
        out.say(f"the earlier campaign is now {plain(aside)}")
    return CampaignFolder(path, recipe)


@contextmanager
def services_of(
    chosen: Services, folder: Path, *, state_dir: Path, domains: Path, say: Callable[[str], None]
) -> Iterator[Farm]:
    """The services of a campaign in `folder`, for the length of the block."""
    if chosen.stack == "running":
        with running_farm(StateDir(state_dir)) as farm:
            yield farm
        return
    options = StackOptions(
        domains=domains.absolute(),
        engine=chosen.engine,
        model=Path(chosen.model) if chosen.model else None,
    )
    with private_farm(StateDir(folder / "state"), options, say) as farm:
        yield farm


def parse_tags(given: list[str] | None) -> dict[str, str]:
    """`split=eval` pairs; BadInput for anything else."""
    tags: dict[str, str] = {}
    for text in given or []:
        key, separator, value = text.partition("=")
        if not key or not separator or not value:
            raise BadInput(f"--tag {text}: write it as KEY=VALUE, such as split=eval")
        tags[key] = value
    return tags
