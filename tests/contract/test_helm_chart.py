"""The chart: its manifests are valid, and no pod may do or reach more than its part needs."""

from typing import Any

import pytest

from tests.support.helm_chart import CHART, containers, helm, may_enter, pods, render

SERVICES = ("env-server", "grader", "proofs", "gateway", "engine", "learner")
VARIANTS = (
    (),
    (
        "envServer.keda.enabled=false",
        "grader.hpa.enabled=false",
        "monitoring.serviceMonitors=false",
    ),
    ("engine.enabled=false", "learner.enabled=false", "proofs.enabled=false"),
    ("grader.judge.url=https://judge.example/v1", "grader.judge.model=m"),
    ("grader.callers[0].podSelector.matchLabels.app=mine",),
)


def volumes(pod: dict[str, Any]) -> dict[str, Any]:
    return {item["name"]: item for item in pod["spec"]["volumes"]}


def test_helm_lint_finds_nothing():
    done = helm("lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("version", "settings"), [("1.29", VARIANTS[0]), *(("1.34", variant) for variant in VARIANTS)]
)
def test_every_manifest_fits_the_schemas_of_kubernetes(settings: tuple[str, ...], version: str):
    validate = pytest.importorskip("kubernetes_validate")
    checked = 0
    for item in render(*settings):
        if settings and item in render():
            continue
        if item["apiVersion"].partition("/")[0] in ("keda.sh", "monitoring.coreos.com"):
            continue
        validate.validate(item, version, strict=True)
        checked += 1
    assert settings or checked >= 15


@pytest.mark.parametrize("part", SERVICES)
def test_a_pod_is_unprivileged_and_its_root_cannot_be_written(part: str):
    pod = pods(render())[part]
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    security = spec["securityContext"]
    assert security["runAsNonRoot"] is True and security["runAsUser"] >= 10000
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not spec.get("hostNetwork") and not spec.get("hostPID")
    assert not [item for item in spec["volumes"] if "hostPath" in item]
    for container in containers(pod):
        inner = container["securityContext"]
        assert inner["readOnlyRootFilesystem"] is True, container["name"]
        assert inner["allowPrivilegeEscalation"] is False
        assert inner["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"], container["name"]
        assert not container["image"].endswith(":latest")


def test_secrets_come_as_files_and_each_pod_gets_only_its_own():
    manifests = render()
    assert not [item for item in manifests if item["kind"] == "Secret"]
    given = {
        part: sorted(
            entry["key"]
            for item in pod["spec"]["volumes"]
            if "secret" in item
            for entry in item["secret"]["items"]
        )
        for part, pod in pods(manifests).items()
    }
    assert given == {
        "env-server": [
            "env-grader-token",
            "env-infra-token",
            "env-server-dsn",
            "postgres-password",
        ],
        "grader": ["env-grader-token", "grader-client-token"],
        "proofs": ["env-grader-token", "env-infra-token"],
        "gateway": ["env-infra-token", "gateway-infra-token", "grader-client-token", "redis-url"],
        "learner": ["gateway-infra-token", "redis-url"],
        "engine": [],
    }
    for pod in pods(manifests).values():
        for container in containers(pod):
            names = [item["name"] for item in container.get("env", [])]
            assert not [name for name in names if name.endswith(("_TOKEN", "_DSN", "_REDIS_URL"))]


DOORS = {
    ("env-server", 9090): {"gateway", "grader", "proofs"},
    ("grader", 9090): {"gateway"},
    ("grader", 8080): set(),
    ("gateway", 9090): {"learner"},
    ("gateway", 8080): set(),
    ("engine", 8000): {"gateway"},
    ("env-server", 8080): set(),
}


@pytest.mark.parametrize(("door", "allowed"), DOORS.items())
def test_a_door_opens_to_those_who_need_it(door: tuple[str, int], allowed: set[str]):
    target, port = door
    manifests = render()
    entering = {
        part for part in SERVICES if part != target and may_enter(manifests, part, target, port)
    }
    assert entering == allowed


def test_who_scrapes_reaches_an_engines_metrics_and_not_its_control_routes():
    policies = [item["spec"] for item in render() if item["kind"] == "NetworkPolicy"]
    scrapes = [
        {entry["port"] for entry in rule["ports"]}
        for spec in policies
        for rule in spec.get("ingress", [])
        if any("namespaceSelector" in peer for peer in rule.get("from", []))
    ]
    assert scrapes == [{8080}]
    engine = pods(render())["engine"]
    metrics = next(item for item in engine["spec"]["containers"] if item["name"] == "metrics")
    assert metrics["ports"] == [{"name": "http", "containerPort": 8080}]


def test_the_proxy_of_the_chart_is_the_one_of_the_images():
    root = CHART.parents[2]
    ours = (root / "deploy/images/metrics_only.py").read_text()
    assert (CHART / "files/metrics_only.py").read_text() == ours


def test_an_env_server_keeps_its_postgres_in_memory_and_until_its_drain_ends():
    pod = pods(render())["env-server"]
    (sidecar,) = pod["spec"]["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    places = {item["mountPath"]: item["name"] for item in sidecar["volumeMounts"]}
    data = volumes(pod)[places["/var/lib/postgresql/data"]]
    assert data["emptyDir"] == {"medium": "Memory", "sizeLimit": "6Gi"}
    assert volumes(pod)[places["/dev/shm"]]["emptyDir"]["medium"] == "Memory"
    assert sidecar["resources"]["limits"]["memory"] == "8Gi"
    env = {item["name"]: item.get("value") for item in pod["spec"]["containers"][0]["env"]}
    assert pod["spec"]["terminationGracePeriodSeconds"] > int(env["ENV_SERVER_DRAIN_SECONDS"])


def test_a_drain_of_nothing_is_refused():
    done = helm("template", "x", CHART, "--set", "envServer.drainSeconds=0")
    assert done.returncode != 0
    assert "drainSeconds must be above 0" in done.stderr


def test_env_servers_scale_on_demand_and_never_below_what_is_drained():
    kinds = {
        item["kind"]: item for item in render() if item["metadata"]["name"] == "farm-env-server"
    }
    scaled, deployment = kinds["ScaledObject"]["spec"], kinds["Deployment"]["spec"]
    assert "replicas" not in deployment
    assert scaled["scaleTargetRef"] == {"name": "farm-env-server"}
    (trigger,) = scaled["triggers"]
    assert "envfarm_episodes_live" in trigger["metadata"]["query"]
    assert "envfarm_open_refusals_total" in trigger["metadata"]["query"]
    assert kinds["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert kinds["Service"]["spec"]["publishNotReadyAddresses"] is True


def test_every_budget_service_and_monitor_selects_a_pod_of_the_chart():
    manifests = render()
    labels = [pod["metadata"]["labels"] for pod in pods(manifests).values()]
    for item in manifests:
        selector = item.get("spec", {}).get("selector")
        if item["kind"] in ("Service", "PodDisruptionBudget", "ServiceMonitor") and selector:
            wanted = selector.get("matchLabels", selector)
            assert any(wanted.items() <= have.items() for have in labels), item["metadata"]["name"]


def test_the_learner_is_one_job_over_all_nodes():
    job = next(
        item for item in render() if item["kind"] == "Job" and "learner" in item["metadata"]["name"]
    )
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] == 3
    (container,) = spec["template"]["spec"]["containers"]
    arguments = container["args"]
    assert arguments[arguments.index("--nnodes") + 1] == "3"
    assert (
        arguments[arguments.index("--master-addr") + 1]
        == f"{job['metadata']['name']}-0.farm-learner"
    )
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"
