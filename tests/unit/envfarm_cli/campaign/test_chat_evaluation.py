"""An evaluation by chat asks the gateway's endpoint, is marked so, and goes on with the same one only."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from envfarm_cli.campaign.folder import CampaignFolder
from envfarm_cli.campaign.narration import Narration
from envfarm_cli.campaign.opening import services
from envfarm_cli.campaign.stages import Stages
from envfarm_cli.commands_eval import EvalRecipe, _engine, _run
from envfarm_cli.failure import BadInput
from envfarm_cli.output import Output
from tests.support.canned_farm import canned_farm

RECIPE = {
    "name": "other",
    "domain": "d",
    "tags": {},
    "suite": {},
    "biased": False,
    "interface": "chat",
    "k": 2,
    "seed": 1,
    "services": services("own", "none", None),
}


def run(folder: Path, model: str) -> tuple[dict, SimpleNamespace]:
    recipe = EvalRecipe.resolve("envfarm eval", RECIPE)
    farm = canned_farm(folder / "gateway", lambda *_: 1.0, ["d/a", "d/b"])
    asked = SimpleNamespace(url="http://there/v1", model=model, sampling_hash="s")
    farm.chat_endpoint = lambda: asked
    with CampaignFolder(folder / "other", recipe) as campaign:
        stages = Stages(campaign.path, recipe.hash)
        _run(recipe, farm, campaign, stages, Narration(Output(True), total=2), Path("none"))  # pyright: ignore[reportArgumentType]
        return stages.result("figures"), farm


def test_figures_by_chat_say_who_was_asked(tmp_path):
    figures, farm = run(tmp_path, "one")
    assert (figures["interface"], figures["policy"]["model"]) == ("chat", "one")
    assert (figures["attempts"], figures["pass_at_1"]) == (4, 1.0)
    assert farm.gateway.interfaces == {"chat"}
    assert run(tmp_path, "one")[0] == figures


def test_another_model_does_not_finish_what_one_began(tmp_path):
    run(tmp_path, "one")
    with pytest.raises(BadInput, match="began with one, and the gateway now asks two"):
        run(tmp_path, "two")


def test_a_private_stack_for_chat_starts_no_engine():
    assert _engine("own", "vllm", "chat") == "none"
    assert _engine("own", "vllm", "tokens") == "vllm"
    assert _engine("running", "vllm", "chat") == "vllm"
