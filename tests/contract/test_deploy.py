"""Images and compose: each service gets its own part, its own secrets, and no more rights than it needs."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "deploy/images"
PARTS = {"env-server": "world", "grader": "private", "rollout-gateway": "user"}
OURS = ("env-server", "grader", "gateway", "engine", "learner", "proofs", "model", "engine-metrics")
STACK: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = STACK["services"]


def dockerfile(name: str) -> str:
    return (IMAGES / f"{name}.Dockerfile").read_text()


def mounted(service: str) -> set[str]:
    """Names of the volumes of secrets that a service sees."""
    names = (volume.partition(":")[0] for volume in SERVICES[service].get("volumes", []))
    return {name for name in names if name.endswith("-secrets")}


@pytest.mark.parametrize(("image", "part"), PARTS.items())
def test_an_image_takes_its_own_part_of_the_domains_and_no_other(
    image: str, part: str, tmp_path: Path
):
    text = dockerfile(image)
    assert re.findall(r"take_part\.sh (\w+)", text) == [part]
    final = text[text.rindex("\nFROM ") :]
    assert re.findall(r"COPY (.*)", final) == [
        "--from=build /opt/envfarm /opt/envfarm",
        "--from=build /opt/domains /opt/domains",
    ]
    taken = tmp_path / "domains"
    script = ["sh", IMAGES / "take_part.sh", part, ROOT / "domains", taken]
    subprocess.run(script, check=True, capture_output=True)
    assert {path.name for path in taken.iterdir()} >= {"orders", "counter"}
    assert {path.name for path in taken.glob("*/*")} == {part}


def test_domains_can_be_chosen_by_name_and_a_wrong_name_stops_the_build(tmp_path: Path):
    script = ["sh", IMAGES / "take_part.sh", "user", ROOT / "domains", tmp_path / "a"]
    subprocess.run(script, check=True, env={"PATH": "/usr/bin:/bin", "DOMAINS": "orders"})
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["orders"]
    script[-1] = tmp_path / "b"
    done = subprocess.run(
        script, env={"PATH": "/usr/bin:/bin", "DOMAINS": "nope"}, capture_output=True, text=True
    )
    assert done.returncode == 1 and "DOMAINS names no domain" in done.stderr


@pytest.mark.parametrize("name", [*PARTS, "learner", "engine-cpu"])
def test_an_image_runs_unprivileged_with_an_init_and_a_health_check(name: str):
    text = dockerfile(name)
    assert text.count("\nUSER 10001:10001\n") == 1
    assert 'ENTRYPOINT ["dumb-init", "--single-child", "--"]' in text
    assert "\nHEALTHCHECK " in text
    assert re.search(r"^ARG BASE_IMAGE=\S+:\d\S*$", text, re.M), "the base has a version"
    assert "ARG PIP_INDEX_URL\n" in text
    assert "--mount" not in text, "the classic builder knows no mounts"


@pytest.mark.parametrize("service", OURS)
def test_a_container_has_no_rights_to_lose(service: str):
    spec = SERVICES[service]
    assert spec["read_only"] is True
    assert spec["cap_drop"] == ["ALL"]
    assert spec["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in spec


def test_a_service_mounts_its_own_secrets_only():
    expected = {
        name: {f"{name}-secrets"} for name in ("env-server", "grader", "gateway", "learner")
    }
    expected |= {name: {f"{name}-secrets"} for name in ("proofs", "redis", "grafana", "postgres")}
    expected["learner-gpu"] = {"learner-secrets"}
    expected["secrets"] = {name for name in STACK["volumes"] if name.endswith("-secrets")}
    assert {name: mounted(name) for name in SERVICES if mounted(name)} == expected
    text = json.dumps({name: spec.get("environment", {}) for name, spec in SERVICES.items()})
    assert not re.search(r"_TOKEN|PASSWORD\"|_KEY\"|REDIS_URL|_DSN", text)


def test_only_the_gateway_and_a_proxy_of_metrics_reach_the_engines():
    members = {name for name, spec in SERVICES.items() if "engine" in spec.get("networks", [])}
    assert members == {"gateway", "engine", "engine-gpu", "engine-metrics"}
    assert all(STACK["networks"][name]["internal"] for name in ("env", "engine", "stream"))
    assert SERVICES["env-server"]["networks"] == ["env"]


def test_what_is_published_listens_on_this_machine_unless_told_otherwise():
    ports = [port for spec in SERVICES.values() for port in spec.get("ports", [])]
    assert len(ports) == 4
    assert all(port.startswith("${PUBLISH_ADDRESS:-127.0.0.1}:") for port in ports)


def test_every_variable_of_compose_is_in_the_example():
    used = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text()))
    named = set(re.findall(r"^# ([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.M))
    assert used - named == set()


def test_every_service_has_longer_to_stop_than_it_drains():
    spec = SERVICES["env-server"]
    drain = int(spec["environment"]["ENV_SERVER_DRAIN_SECONDS"].partition(":-")[2].rstrip("}"))
    grace = int(spec["stop_grace_period"].partition(":-")[2].rstrip("s}"))
    assert grace > drain


def test_secrets_are_made_once_and_agree_where_they_are_shared(tmp_path: Path):
    script = [sys.executable, ROOT / "deploy/compose/make_secrets.py", tmp_path]
    first = subprocess.run(script, capture_output=True, text=True, check=True)
    made = {str(p.relative_to(tmp_path)): p.read_text() for p in tmp_path.glob("*/*")}
    assert first.stdout == "secrets: 7 made\n"
    assert made["env-server/env_server_infra_token"] == made["gateway/gateway_env_token"]
    assert made["env-server/env_server_grader_token"] == made["grader/grader_evidence_token"]
    assert made["env-server/env_server_infra_token"] != made["env-server/env_server_grader_token"]
    password = made["redis/redis.conf"].split()[1]
    assert made["learner/learner_redis_url"] == f"redis://:{password}@redis:6379/0"
    again = subprocess.run(script, capture_output=True, text=True, check=True)
    assert again.stdout == "secrets: 0 made\n"
    assert {str(p.relative_to(tmp_path)): p.read_text() for p in tmp_path.glob("*/*")} == made


def test_prometheus_of_compose_watches_the_jobs_that_boards_and_alerts_know():
    def jobs(path: str) -> list[str]:
        return [
            item["job_name"] for item in yaml.safe_load((ROOT / path).read_text())["scrape_configs"]
        ]

    assert jobs("deploy/compose/prometheus.yml") == jobs("deploy/prometheus/prometheus.yml")
