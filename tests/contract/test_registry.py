"""Metric registry, stream names, lock file: contracts that several processes lean on."""

import re
from pathlib import Path

from envfarm import metrics, streams
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
UNITS = ("_total", "_seconds", "_live", "_ready", "_running", "_version", "_gap", "_groups")


def test_metric_names_are_unique_and_say_their_kind():
    names = [metric.name for metric in metrics.METRICS]
    assert len(names) == len(set(names))
    for metric in metrics.METRICS:
        assert metric.name.startswith("envfarm_")
        assert metric.meaning.endswith(".")
        assert (metric.kind == "counter") == metric.name.endswith("_total")
        assert (metric.kind == "histogram") == (
            metric.unit == "seconds" and metric.name.endswith("_seconds")
        )


def test_no_metric_is_labelled_with_an_id():
    labels = {label for metric in metrics.METRICS for label in metric.labels}
    assert not [label for label in labels if label.endswith("id")]


def test_every_metric_that_code_names_is_in_the_registry():
    used = set()
    for folder in ("services", "learner/src", "cli/src"):
        for path in (ROOT / folder).rglob("*.py"):
            calls = r'\.(?:count|set|observe|inc)\(\s*"(envfarm_[a-z_]+)"'
            used |= set(re.findall(calls, path.read_text()))
    assert used
    assert used <= set(metrics.BY_NAME)


def test_every_metric_of_the_registry_is_used_by_its_owner():
    source = {
        "env-server": "services/env-server",
        "grader": "services/grader",
        "rollout-gateway": "services/rollout-gateway",
        "learner": "learner/src",
    }
    texts = {
        owner: "\n".join(path.read_text() for path in (ROOT / folder).rglob("*.py"))
        for owner, folder in source.items()
    }
    unused = [m.name for m in metrics.METRICS if f'"{m.name}"' not in texts[m.owner]]
    assert unused == []


def test_stream_names_differ_between_runs_and_between_each_other():
    names = [
        make(run)
        for run in ("a", "b")
        for make in (
            streams.group_stream,
            streams.published_ids,
            streams.trained_ids,
            streams.learner_lease,
            streams.learner_epoch,
            streams.dead_letters,
        )
    ]
    assert len(names) == len(set(names))


def test_the_lock_satisfies_every_requirement():
    pins = {}
    for line in (ROOT / "requirements/lock.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            pins[canonicalize_name(name)] = version
    asked = [
        Requirement(line)
        for line in (ROOT / "requirements/all.in").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert asked
    wrong = [
        str(requirement)
        for requirement in asked
        if canonicalize_name(requirement.name) not in pins
        or not requirement.specifier.contains(
            pins[canonicalize_name(requirement.name)], prereleases=True
        )
    ]
    assert wrong == []
