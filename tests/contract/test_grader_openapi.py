"""The committed OpenAPI document is the one that the grader serves."""

import json
import re
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


def test_the_typescript_client_was_generated_from_this_document():
    """Without node: every name and code of the document stands in the client, and none beside them."""
    written = (FILE.parent / "grader-client/grader-api.d.ts").read_text()
    schemas = openapi.document()["components"]["schemas"]
    for name, schema in schemas.items():
        assert f"{name}: {{" in written or f"{name}:" in written
        for field in schema.get("properties", {}):
            assert f"{field}:" in written or f"{field}?:" in written, f"{name}.{field}"
    codes = schemas["Problem"]["properties"]["code"]["enum"]
    assert sorted(set(re.findall(r'"(ERROR_CODE_[A-Z_]+)"', written))) == codes
