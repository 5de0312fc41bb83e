"""The committed OpenAPI document is the one that the grader serves."""

import json
from pathlib import Path

from envfarm.errors import WIRE

from grader import openapi
from grader.ask import GradeRequest

FILE = Path(__file__).parents[2] / "docs/grader-openapi.json"


def test_the_committed_document_is_the_served_one():
    committed = json.loads(FILE.read_text())
    assert committed == openapi.document(), (
        "run `python -m grader.openapi > docs/grader-openapi.json` and commit it"
    )


def test_every_error_of_ours_that_the_api_can_answer_has_a_described_status():
    described = set(openapi.document()["paths"]["/v1/grade"]["post"]["responses"])
    assert {str(wire.http) for wire in WIRE.values()} <= described


def test_the_reward_may_be_absent_and_everything_that_decides_is_there():
    verdict = openapi.document()["components"]["schemas"]["Verdict"]
    assert "reward" not in verdict["required"]
    assert {"status", "checks", "evidence_hash", "checks_hash", "grader_hash"} <= set(
        verdict["required"]
    )


def test_the_bodies_are_those_that_are_read():
    schemas = openapi.document()["components"]["schemas"]
    assert set(schemas["GradeRequest"]["properties"]) == set(GradeRequest.model_fields)
