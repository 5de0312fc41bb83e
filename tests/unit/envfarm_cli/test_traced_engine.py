"""An engine of the stack continues the traces of attempts where traces are sent somewhere."""

from pathlib import Path

import pytest

from envfarm_cli.service_specs import Spec, vllm
from envfarm_cli.state_dir import StateDir


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def make(endpoint: str) -> Spec:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        return vllm(StateDir(tmp_path), Path("/models/tiny"), 8000)

    return make


def test_its_spans_go_where_all_spans_go_and_it_begins_no_trace(spec):
    made = spec("http://collector:4318/")
    at = made.argv.index("--otlp-traces-endpoint")
    assert made.argv[at + 1] == "http://collector:4318/v1/traces"
    assert made.env["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == "http/protobuf"
    assert made.env["OTEL_TRACES_SAMPLER"] == "parentbased_always_off"
    assert made.env["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318/"


def test_without_an_endpoint_it_is_told_nothing_of_traces(spec):
    made = spec("")
    assert "--otlp-traces-endpoint" not in made.argv
    assert not [name for name in made.env if name.startswith("OTEL_")]
