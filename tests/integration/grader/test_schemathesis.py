"""Requests made from the OpenAPI document, right and wrong ones: no answer is a 5xx by accident, and
every answer is of the documented kind."""

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from grader import openapi
from tests.integration.grader.test_grade_door import TOKEN, write_domains, write_golden
from tests.support.grader_process import CLIENT_TOKEN, environment, start_grader

EXAMPLES = 20
schema = schemathesis.openapi.from_dict(openapi.document())


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("grader")
    domains = write_domains(root)
    golden = write_golden(root / "golden", domains)
    with start_grader(environment(domains, golden, TOKEN, root / "ready.json"), root / "log") as it:
        yield it


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_no_request_meets_a_server_error(case: schemathesis.Case, url: str):
    case.call_and_validate(
        base_url=url,
        headers={"Authorization": f"Bearer {CLIENT_TOKEN}"},
        checks=(not_a_server_error, content_type_conformance, status_code_conformance),
    )
