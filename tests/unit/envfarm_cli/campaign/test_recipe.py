"""Recipes: frozen, hashed, strict; a folder belongs to one of them."""

import pytest
from pydantic import Field

from envfarm_cli.campaign.folder import CampaignFolder, put_aside
from envfarm_cli.campaign.recipe import Part, Recipe, differences, read_toml, set_keys
from envfarm_cli.failure import BadInput


class Train(Part):
    updates: int = Field(ge=1)
    lr: float = 1e-6


class Run(Recipe):
    name: str
    train: Train


VALUES = {"name": "a", "train": {"updates": 50}}


def test_every_wrong_key_is_named_with_its_place():
    with pytest.raises(BadInput) as failure:
        Run.resolve("run.toml", {"name": "a", "train": {"updates": 0, "colour": 1}})
    assert failure.value.message.startswith("run.toml: ")
    assert "train.updates" in failure.value.message
    assert "train.colour: Extra inputs are not permitted" in failure.value.message


def test_equal_recipes_have_equal_hashes_whatever_was_left_out():
    explicit = Run.resolve("x", {"train": {"lr": 1e-6, "updates": 50}, "name": "a"})
    assert Run.resolve("x", VALUES).hash == explicit.hash
    assert Run.resolve("x", {**VALUES, "name": "b"}).hash != explicit.hash


def test_set_wins_over_the_file_and_takes_toml_values_or_text():
    values = set_keys(VALUES, ["train.lr=3e-4", "name=b", "train.updates=7"])
    assert values == {"name": "b", "train": {"updates": 7, "lr": 3e-4}}
    assert VALUES == {"name": "a", "train": {"updates": 50}}


@pytest.mark.parametrize("text", ["train.lr", "=3", "name.first=1"])
def test_a_setting_that_cannot_be_applied_is_refused(text):
    with pytest.raises(BadInput, match="--set"):
        set_keys(VALUES, [text])


def test_a_file_that_is_no_toml_is_one_line(tmp_path):
    (tmp_path / "run.toml").write_text("updates = ")
    with pytest.raises(BadInput, match=r"cannot read the recipe .*run\.toml"):
        read_toml(tmp_path / "run.toml")


def test_a_folder_refuses_another_recipe_and_says_what_changed(tmp_path):
    with CampaignFolder(tmp_path / "a", Run.resolve("x", VALUES)):
        pass
    changed = Run.resolve("x", {"name": "a", "train": {"updates": 60}})
    with pytest.raises(BadInput, match=r"train\.updates was 50 and is 60"):
        CampaignFolder(tmp_path / "a", changed).__enter__()
    assert put_aside(tmp_path / "a") == tmp_path / "a.old-1"
    with CampaignFolder(tmp_path / "a", changed):
        pass


def test_two_commands_never_share_a_folder(tmp_path):
    recipe = Run.resolve("x", VALUES)
    with CampaignFolder(tmp_path / "a", recipe):
        with pytest.raises(BadInput, match="another envfarm works in"):
            CampaignFolder(tmp_path / "a", recipe).__enter__()
    with CampaignFolder(tmp_path / "a", recipe):
        pass


def test_differences_go_down_into_sections():
    now = {"a": {"b": 1, "c": 2}, "d": 3}
    assert differences({"a": {"b": 1, "c": 3}}, now) == [
        "a.c was 3 and is 2",
        "d was None and is 3",
    ]
