"""A real vLLM on the CPU, for tests: `with VllmServer(model_dir, log_file) as engine: engine.url`.

The server runs in a process group of its own. Stopping it ends exactly that group; if the test
process dies first, the kernel ends the server.
"""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

START_SECONDS = 240
FLAGS = (
    "--dtype",
    "float32",
    "--enforce-eager",
    "--max-model-len",
    "4096",
    "--generation-config",
    "vllm",
    "--enable-scale-out",
)
ENV = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_SERVER_DEV_MODE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


class VllmServer:
    """Starts in the constructor and returns when /health answers; `url` is its address."""

    def __init__(
        self,
        model: Path,
        log: Path,
        *,
        port: int = 0,
        flags: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        seconds: float = START_SECONDS,
    ):
        """`flags` are added to FLAGS, `env` to ENV; `log` gets what the server prints."""
        self.port = port or _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        cache = log.parent / "vllm-cache"
        cache.mkdir(exist_ok=True)
        vllm = Path(sys.executable).with_name("vllm")
        setpriv = ["setpriv", "--pdeathsig", "SIGTERM", "--"]
        command = [*setpriv, str(vllm), "serve", str(model), "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--served-model-name", "policy", *FLAGS, *flags]
        path = f"{vllm.parent}:{os.environ.get('PATH', '/usr/bin:/bin')}"
        own = {"PATH": path, "HOME": str(cache), "VLLM_CACHE_ROOT": str(cache), **ENV}
        with log.open("ab") as sink:
            self.process = subprocess.Popen(
                command, stdout=sink, stderr=sink, env=own | dict(env or {}), start_new_session=True
            )
        try:
            self._wait_until_healthy(seconds)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the group: SIGTERM, then SIGKILL after 20 seconds. A second stop is fine."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def kill(self) -> None:
        """End the group at once, as a crash would."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def __enter__(self) -> "VllmServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait_until_healthy(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.2)
        tail = self._log.read_text(errors="replace")[-3000:]
        raise RuntimeError(f"vllm serve did not become healthy; its log ends:\n{tail}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
