"""The JSON Schemas that editors read say what the services' strict readers say."""

import copy
import json
from pathlib import Path

import jsonschema
import pytest
from envfarm_common import strict_yaml

from envfarm_cli.authoring.schemas import FOLDER, PARTS, schema, stale_schemas

DOMAINS = Path(__file__).parents[2] / "domains"


def validator(part: str) -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(json.loads((DOMAINS / FOLDER / f"{part}.json").read_text()))


def test_the_committed_schemas_are_those_of_the_models():
    assert stale_schemas(DOMAINS) == {}, "run `envfarm tasks schema`"


@pytest.mark.parametrize("part", PARTS)
def test_every_tenth_file_fits_its_schema(part: str):
    jsonschema.Draft7Validator.check_schema(schema(part))
    files = sorted(DOMAINS.glob(PARTS[part][1]))
    assert files
    for path in files[:: max(1, len(files) // 10)]:
        assert list(validator(part).iter_errors(strict_yaml.read(path))) == [], path


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("world", "colour", "red"),
        ("task", "opening", ""),
        ("task", "tags", {"workflow": "a", "failure_mode": "b", "split": "test"}),
        ("user", "script", [{"when": "x"}]),
        ("private", "empty", "maybe"),
        ("private", "checks", [{"name": "x", "kind": "vibes"}]),
        ("private", "checks", [{"name": "x", "kind": "state", "unstable": ["nodot"]}]),
    ],
)
def test_mistakes_do_not_fit(part: str, key: str, value: object):
    path = next(iter(sorted(DOMAINS.glob(PARTS[part][1].replace("*", "orders", 1)))))
    content = copy.deepcopy(strict_yaml.read(path))
    content[key] = value
    assert list(validator(part).iter_errors(content)) != []


def test_our_expressions_are_not_taken_for_those_of_javascript():
    assert '"regex"' not in json.dumps([schema(part) for part in PARTS])


def test_the_editor_of_this_repository_knows_each_part_by_its_place():
    settings = json.loads((DOMAINS.parent / ".vscode/settings.json").read_text())
    assert settings["yaml.schemas"] == {
        f"./domains/{FOLDER}/{part}.json": f"domains/{place}" for part, (_, place) in PARTS.items()
    }


def test_keys_say_what_they_mean():
    private = schema("private")["$defs"]["StateCheck"]["properties"]
    assert "natural key" in private["keys"]["description"].lower()
