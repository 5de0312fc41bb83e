"""The stack in real containers: `make compose-test`. It needs a Docker engine and no image registry."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from envfarm_cli.domain_files import read_yaml
from tests.support.compose_images import SERVICES, TRAINING, build_images, require_engine
from tests.support.compose_stack import BASE, ComposeStack, slowly
from tests.support.proof import write_proof

pytestmark = [pytest.mark.prove, pytest.mark.timeout(5400)]

ROOT = Path(__file__).parents[2]
TASKS = ("refund-damaged", "cancel-placed", "address-change", "refund-approval")
LEAST_ATTEMPTS = 500
WHEELS = ROOT / ".envfarm/wheels"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeStack]:
    require_engine()
    build_images(SERVICES + TRAINING, WHEELS)
    running = ComposeStack(tmp_path_factory.mktemp("compose"))
    with running:
        running.up(*BASE)
        running.up("proofs")
        assert running.wait_for_end("proofs", 600) == 0
        yield running
    assert running.left_over() == {"containers": [], "networks": [], "volumes": []}


def submit(stack: ComposeStack, job: str, groups_per_task: int = 4, **fields: object) -> None:
    body = {"job_id": job, "run_id": job, "kind": "probe", "groups_per_task": groups_per_task}
    body |= {"task_ids": [f"orders/{name}" for name in TASKS], "group_size": 8, **fields}
    stack.gateway("POST", "/v1/jobs", body)


def test_env_servers_scale_from_one_to_three_to_one_and_no_attempt_fails(stack: ComposeStack):
    jobs: list[str] = []

    def work() -> None:
        """Keep attempts running through every change: 128 more once those before are done."""
        if not jobs or stack.job(jobs[-1])["state"].lower().endswith("done"):
            jobs.append(f"scale-{len(jobs)}")
            submit(stack, jobs[-1])

    def servers() -> int:
        return len(stack.gateway("GET", "/v1/fleet").json()["env_servers"])

    def reached(number: int) -> bool:
        work()
        return servers() == number

    work()
    stack.scale(3)
    slowly(lambda: reached(3), "the gateway to find three env-servers", 180)
    spread: set[str] = set()

    def on_all_three() -> bool:
        work()
        spread.update(
            row["env_server"]
            for job in jobs
            for row in stack.attempts(job)
            if row.get("env_server")
        )
        return len(spread) >= 3 or len(jobs) > 8

    slowly(on_all_three, "attempts on all three", 300)
    stack.scale(1)
    exits = stack.exits(2)
    slowly(lambda: reached(1), "the gateway to be left with one", 180)
    while len(jobs) * 128 < LEAST_ATTEMPTS:
        stack.wait_for_job(jobs[-1], 900)
        work()
    stack.wait_for_job(jobs[-1], 900)
    rows = [row for job in jobs for row in stack.attempts(job)]
    statuses = Counter(row["status"] for row in rows)
    assert len(rows) >= LEAST_ATTEMPTS
    assert set(statuses) == {"completed"}, statuses
    assert {row["reward"] for row in rows} == {0.0, 1.0}
    assert all(row["attempt"] == 1 for row in rows)
    assert exits == [0, 0]
    write_proof(
        "compose-scale",
        {
            "attempts": len(rows),
            "statuses": dict(statuses),
            "env_servers": len(spread),
            "exits": exits,
        },
    )


def test_the_grader_answers_curl_from_outside(stack: ComposeStack):
    token = stack.secret("grader", "grader_client_token")
    url = f"http://127.0.0.1:{stack.ports['GRADER']}"
    body: dict[str, object] = {
        "request_id": "outside-1",
        "task_id": "orders/cancel-placed",
        "task_hash": "0" * 64,
    }
    body["state"] = {"tables": {}}
    command = ["curl", "-sS", "-H", f"Authorization: Bearer {token}"]
    command += ["-H", "Content-Type: application/json", "-d", json.dumps(body), f"{url}/v1/grade"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert told["code"].startswith("ERROR_CODE_"), told
    refused = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-d", "{}", f"{url}/v1/grade"]
    assert subprocess.run(refused, capture_output=True, text=True).stdout == "401"
    golden = read_yaml(ROOT / "domains/orders/private/cancel-placed.yaml")
    assert golden["golden"]["reply"] not in json.dumps(told)


def test_prometheus_sees_every_service(stack: ComposeStack):
    wanted = {"env-server", "grader", "rollout-gateway"}
    slowly(lambda: wanted <= stack.scraped(), f"{wanted} to be scraped", 120)


def test_the_doors_are_networks(stack: ComposeStack):
    assert stack.reaches("gateway", "policy", 8000)
    for service in ("grader", "env-server", "redis", "prometheus"):
        assert not stack.reaches(service, "policy", 8000), service
    assert not stack.reaches("env-server", "redis", 6379)
    assert stack.reaches("grader", "env-server", 9090)


def test_a_short_training_on_the_cpu_profile_moves_the_weights(stack: ComposeStack):
    stack.up("engine", "scoring-policy", "learner", "engine-metrics", profile="cpu")
    stack.gateway("PUT", "/v1/fleet/engines", ["http://scoring-policy:8000"])
    version = "in_service"
    slowly(lambda: version in stack.gateway("GET", "/v1/status").json(), "version 0", 600)
    first = stack.gateway("GET", "/v1/status").json()[version]
    submit(
        *(stack, "train"), 0, kind="train", run_id="tiny", groups_per_update=1, updates=2, seed=1
    )
    stack.wait_for_job("train", 900)
    last = stack.gateway("GET", "/v1/status").json()[version]
    assert first["weights_hash"] != last["weights_hash"]
    assert {row["status"] for row in stack.attempts("train")} == {"completed"}
    wanted = {"env-server", "grader", "rollout-gateway", "engine"}
    slowly(lambda: wanted <= stack.scraped(), f"{wanted} to be scraped", 120)
    write_proof("compose-training", {"updates": 2, "first": first, "last": last})
