"""What a gateway that cannot start says."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gateway_process import settings

ROOT = Path(__file__).parents[3]


def refusal(env: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "rollout_gateway"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    # gRPC's C core adds a line of its own to a failed bind.
    lines = [line for line in done.stderr.splitlines() if line[:1] not in ("{", "E")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def working(tmp_path: Path, tokenizer: Path, /, **values: object) -> dict[str, str]:
    return settings(
        tmp_path / "state",
        **{
            "env_token": "e" * 16,
            "grader_token": "g" * 16,
            "env_servers": "127.0.0.1:9",
            "grader": "127.0.0.1:9",
            "engines": "http://127.0.0.1:9",
            "redis_url": "redis://127.0.0.1:9/0",
            "domains_dir": ROOT / "domains",
            "tokenizer_dir": tokenizer,
            **values,
        },
    )


def test_missing_settings_are_named(tmp_path: Path):
    line = refusal({"GATEWAY_STATE_DIR": str(tmp_path)})
    for name in ("GATEWAY_INFRA_TOKEN", "GATEWAY_ENGINES", "GATEWAY_REDIS_URL"):
        assert name in line


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        ({"engines": "127.0.0.1:8000"}, "GATEWAY_ENGINES"),
        ({"infra_token": "short"}, "GATEWAY_INFRA_TOKEN"),
        ({"env_servers": ""}, "GATEWAY_ENV_SERVERS"),
        ({"tokenizer_dir": "/nowhere"}, "cannot read /nowhere/tokenizer.json"),
        ({"domains_dir": "/nowhere"}, "/nowhere is not a folder"),
        ({"store": "dir"}, "GATEWAY_STORE_DIR"),
    ],
)
def test_a_wrong_setting_is_one_clear_line(
    tmp_path: Path, tokenizer_dir: Path, wrong: dict[str, object], part: str
):
    assert part in refusal(working(tmp_path, tokenizer_dir, **wrong))


@pytest.mark.parametrize("door", ["http_port", "grpc_port"])
def test_a_taken_port_is_one_clear_line(tmp_path: Path, tokenizer_dir: Path, door: str):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refusal(working(tmp_path, tokenizer_dir, **{door: port}))
    assert f"cannot listen on 127.0.0.1:{port}" in line


def test_a_damaged_state_is_one_clear_line(tmp_path: Path, tokenizer_dir: Path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "versions.json").write_text("{")
    assert "versions.json is damaged" in refusal(working(tmp_path, tokenizer_dir))
