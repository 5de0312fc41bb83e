"""The stack of docker-compose.yml in real containers, with the layer of tests/compose/local.yml.

    with ComposeStack(folder) as stack: stack.up("gateway"); stack.scale(3); …

Everything that it made is removed at the end: containers, networks, volumes.
"""

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx

from envfarm_cli.script_file import write_script
from envfarm_cli.service_specs import free_port
from tests.support.compose_images import ROOT, docker

BASE = ("redis", "env-server", "grader", "gateway", "prometheus", "policy")
"""Without Grafana, of which there is no stand-in; its dashboards are tested on their own."""


class ComposeStack:
    def __init__(self, folder: Path, project: str = "envfarmtest"):
        script = folder / "script"
        domains = folder / "domains"
        shutil.copytree(ROOT / "domains/orders", domains / "orders")
        script.mkdir()
        # The policy's container runs under an account of its own.
        write_script(script / "script.json", domains).chmod(0o644)
        self.project = project
        self.ports = {name: free_port() for name in ("GRADER", "GATEWAY", "PROMETHEUS")}
        self._env = {
            **os.environ,
            "SCRIPT_DIR": str(script),
            "REPOSITORY": str(ROOT),
            "COMPOSE_PROFILES": "",
            "ENV_SERVER_MAX_EPISODES": "24",
            "ENV_SERVER_SHM": "3gb",
            "ENV_SERVER_DRAIN_SECONDS": "60",
            "ENV_SERVER_STOP_GRACE": "90s",
            "LEARNER_UPDATES": "2",
            **{f"{name}_PORT": str(port) for name, port in self.ports.items()},
        }
        self._exits: dict[str, int] = {}
        self._waits: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(AssertionError):
            self.compose("--profile", "cpu", "down", "--volumes", "--timeout", "30", seconds=300)

    def compose(self, *words: str, seconds: float = 600) -> str:
        """Output; AssertionError with the last words when it fails."""
        command = [*_compose(), "-p", self.project]
        for file in ("docker-compose.yml", "tests/compose/local.yml"):
            command += ["-f", str(ROOT / file)]
        done = subprocess.run(
            [*command, "--project-directory", str(ROOT), *words],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        assert done.returncode == 0, f"compose {words}: {(done.stderr or done.stdout)[-3000:]}"
        return done.stdout

    def up(self, *services: str, profile: str = "") -> None:
        chosen = ["--profile", profile] if profile else []
        self.compose(*chosen, "up", "-d", "--no-build", "--no-recreate", *services, seconds=900)

    def scale(self, replicas: int) -> None:
        """That many env-servers; those that go are watched to their exit status."""
        for container in self.containers("env-server"):
            self._watch_exit(container)
        self.compose(
            *("up", "-d", "--no-build", "--no-recreate", "--no-deps"),
            *("--scale", f"env-server={replicas}", "env-server"),
        )

    def exits(self, number: int, seconds: float = 120) -> list[int]:
        """Exit statuses of env-servers that have gone, once `number` have."""
        slowly(lambda: len(self._exits) >= number, f"{number} env-servers to end", seconds)
        return list(self._exits.values())

    def containers(self, service: str, *, all: bool = False) -> list[str]:
        label = "label=com.docker.compose"
        filters = ["-f", f"{label}.project={self.project}", "-f", f"{label}.service={service}"]
        return docker("ps", "-q", *(["-a"] if all else []), *filters).split()

    def wait_for_end(self, service: str, seconds: float) -> int:
        """Exit status of a one-shot service."""
        (container,) = self.containers(service, all=True)
        return int(docker("wait", container, seconds=seconds))

    def secret(self, service: str, name: str) -> str:
        (container, *_) = self.containers(service)
        return docker("exec", container, "cat", f"/run/secrets/{name}")

    def gateway(self, method: str, path: str, body: Any = None) -> Any:
        """One call to the gateway's HTTP door from outside."""
        answer = httpx.request(
            method,
            f"http://127.0.0.1:{self.ports['GATEWAY']}{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.secret('gateway', 'gateway_infra_token')}"},
            timeout=60,
        )
        assert answer.status_code < 300, answer.text
        return answer

    def attempts(self, job: str) -> list[dict[str, Any]]:
        text = self.gateway("GET", f"/v1/jobs/{job}/attempts").text
        return [json.loads(line) for line in text.splitlines()]

    def job(self, job: str) -> dict[str, Any]:
        return self.gateway("GET", f"/v1/jobs/{job}").json()

    def wait_for_job(self, job: str, seconds: float) -> dict[str, Any]:
        """Its status once it is done; AssertionError when it ended otherwise or is too slow."""
        found: dict[str, Any] = {}

        def is_done() -> bool:
            found.update(self.job(job))
            state = found["state"].lower()
            assert state.endswith(("running", "done")), found
            return state.endswith("done")

        slowly(is_done, f"job {job}", seconds)
        return found

    def scraped(self) -> set[str]:
        """Jobs of which Prometheus has a living target."""
        return self.measure("up == 1", "job")

    def measure(self, query: str, label: str) -> set[str]:
        """The values of one label over all series of a query to Prometheus."""
        url = f"http://127.0.0.1:{self.ports['PROMETHEUS']}/api/v1/query"
        found = httpx.get(url, params={"query": query}, timeout=30).json()["data"]["result"]
        return {item["metric"][label] for item in found}

    def reaches(self, service: str, host: str, port: int) -> bool:
        """Whether a process in that service's container can open a connection to host:port."""
        (container, *_) = self.containers(service)
        code = f"import socket; socket.create_connection(({host!r}, {port}), 3)"
        done = subprocess.run(
            ["docker", "exec", container, "python3", "-c", code], capture_output=True, timeout=60
        )
        return done.returncode == 0

    def left_over(self) -> dict[str, list[str]]:
        """What still carries the project's label."""
        label = f"label=com.docker.compose.project={self.project}"
        return {
            "containers": docker("ps", "-aq", "-f", label).split(),
            "networks": docker("network", "ls", "-q", "-f", label).split(),
            "volumes": docker("volume", "ls", "-q", "-f", label).split(),
        }

    def _watch_exit(self, container: str) -> None:
        def wait() -> None:
            done = subprocess.run(["docker", "wait", container], capture_output=True, text=True)
            if done.returncode == 0 and done.stdout.strip():
                self._exits[container] = int(done.stdout)

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        self._waits.append(thread)


def _compose() -> list[str]:
    has_plugin = (
        subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0
    )
    return ["docker", "compose"] if has_plugin else ["docker-compose"]


def slowly(condition: Callable[[], object], what: str, seconds: float) -> None:
    """As wait_until, for conditions that cost a process or a request."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds:g} s"
        time.sleep(0.5)
