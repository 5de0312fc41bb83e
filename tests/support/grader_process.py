"""A real grader (`python -m grader`) as a child process."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

CLIENT_TOKEN = "client-token-for-tests"
START_SECONDS = 30


@dataclass
class GraderProcess:
    """Its process and its HTTP door."""

    process: subprocess.Popen[bytes]
    url: str
    grpc: str = ""

    async def grade(self, body: Any, token: str = CLIENT_TOKEN) -> httpx.Response:
        async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
            return await client.post(
                f"{self.url}/v1/grade", json=body, headers={"Authorization": f"Bearer {token}"}
            )

    async def post(self, path: str, body: Any, token: str = CLIENT_TOKEN) -> httpx.Response:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            return await client.post(
                f"{self.url}{path}", json=body, headers={"Authorization": f"Bearer {token}"}
            )

    async def post_bytes(self, path: str, body: str | bytes) -> httpx.Response:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            headers = {"Authorization": f"Bearer {CLIENT_TOKEN}"}
            return await client.post(f"{self.url}{path}", content=body, headers=headers)

    async def get(self, path: str, token: str = CLIENT_TOKEN) -> httpx.Response:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return await client.get(f"{self.url}{path}", headers=headers)


def environment(
    domains: Path, golden: Path, evidence_token: str, ready: Path, **more: str
) -> dict[str, str]:
    """Everything the grader reads."""
    return {
        "GRADER_DOMAINS_DIR": str(domains),
        "GRADER_GOLDEN_DIR": str(golden),
        "GRADER_CLIENT_TOKEN": CLIENT_TOKEN,
        "GRADER_EVIDENCE_TOKEN": evidence_token,
        "GRADER_ENV_SERVERS": "127.0.0.1",
        "GRADER_READY_FILE": str(ready),
        **more,
    }


@contextmanager
def started(env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Started, not yet ready; stopped with SIGTERM, and by force when that does not help."""
    with log.open("wb") as stderr:
        process = subprocess.Popen([sys.executable, "-m", "grader"], env=env, stderr=stderr)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@asynccontextmanager
async def grader_process(env: dict[str, str], log: Path) -> AsyncIterator[GraderProcess]:
    """A grader that is ready."""
    ready = Path(env["GRADER_READY_FILE"])
    with started(env, log) as process:
        deadline = time.monotonic() + START_SECONDS
        while not ready.exists():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            await asyncio.sleep(0.02)
        facts = json.loads(ready.read_text())
        yield GraderProcess(process, f"http://{facts['http']}", facts["grpc"])


@contextmanager
def start_grader(env: dict[str, str], log: Path) -> Iterator[str]:
    """The URL of a grader that is ready, for tests without an event loop."""
    with started(env, log) as process:
        deadline = time.monotonic() + START_SECONDS
        while not Path(env["GRADER_READY_FILE"]).exists():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield f"http://{json.loads(Path(env['GRADER_READY_FILE']).read_text())['http']}"
