"""Whatever goes wrong ends in one line on stderr, an exit code, and never a traceback."""

import errno
import json
import os
import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from envfarm.errors import ConfigError, EngineError, Unauthenticated, UnknownTask

from envfarm_cli.failure import as_failure
from envfarm_cli.main import main

DOMAINS = Path(__file__).parents[3] / "domains"


RECORD = b'{"rollout_id": "a", "episode_id": "b"}'


def run(capsys, *arguments: str) -> tuple[int, str]:
    code = main(list(arguments))
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    return code, said


@pytest.fixture
def copied(tmp_path) -> Path:
    return Path(shutil.copytree(DOMAINS, tmp_path / "domains"))


def test_an_unknown_task_is_named_with_its_neighbours(capsys):
    code, said = run(capsys, "tasks", "show", "orders/refund-damagd", "--domains", str(DOMAINS))
    assert code == 2
    assert "there is no task 'orders/refund-damagd'" in said
    assert "orders/refund-damaged" in said


def test_malformed_yaml_is_named_with_its_line(capsys, copied):
    file = copied / "orders/world/tasks/refund-damaged.yaml"
    file.write_text("id: orders/refund-damaged\nopening: [unclosed\nlimits: {}\n")
    code, said = run(capsys, "tasks", "list", "--domains", str(copied))
    assert code == 2
    assert f"{file}:3: not valid YAML" in said


def test_a_private_file_is_checked_before_anything_is_started(capsys, copied, tmp_path):
    file = copied / "orders/private/refund-damaged.yaml"
    file.write_text("task: orders/refund-damaged\n\tgolden: {}\n")
    code, said = run(
        capsys,
        *("tasks", "validate", "--task", "orders/refund-damaged"),
        *("--domains", str(copied), "--state-dir", str(tmp_path / "state")),
    )
    assert code == 2
    assert f"{file}:2: not valid YAML" in said
    assert not (tmp_path / "state").exists()


def test_a_missing_folder_of_domains_is_named(capsys, tmp_path):
    code, said = run(capsys, "tasks", "list", "--domains", str(tmp_path / "none"))
    assert code == 2
    assert "there is no folder of domains" in said


def test_an_unknown_option_points_to_the_help(capsys):
    code, said = run(capsys, "up", "--frobnicate")
    assert code == 2
    assert "--frobnicate" in said
    assert "`envfarm up --help`" in said


def test_an_unknown_port_name_lists_the_names(capsys, tmp_path):
    arguments = ("up", "--domains", str(DOMAINS), "--state-dir", str(tmp_path / "s"))
    code, said = run(capsys, *arguments, "--port", "grader=70000")
    assert code == 2
    assert "grader.http" in said


def test_status_without_a_stack_says_how_to_start_one(capsys, tmp_path):
    code, said = run(capsys, "status", "--state-dir", str(tmp_path))
    assert code == 3
    assert "`envfarm up` starts one" in said


def test_a_file_in_place_of_the_state_folder_is_named(capsys, tmp_path):
    place = tmp_path / "state"
    place.write_text("")
    code, said = run(
        capsys, "up", "--engine", "scripted", "--domains", str(DOMAINS), "--state-dir", str(place)
    )
    assert code == 2
    assert str(place) in said


def test_a_damaged_state_file_is_named(capsys, tmp_path):
    (tmp_path / "state.json").write_text("{")
    code, said = run(capsys, "status", "--state-dir", str(tmp_path))
    assert code == 2
    assert f"{tmp_path}/state.json is damaged" in said


@pytest.mark.parametrize("command", ["status", "down"])
@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "null",
        '{"version": 2}',
        '{"version": 2, "supervisor": 5, "processes": []}',
        '{"version": 2, "supervisor": {"pid": "a", "start": 1}, "processes": []}',
        '{"version": 2, "supervisor": {"pid": 0, "start": 0}, "processes": []}',
        '{"version": 2, "supervisor": {"pid": 7, "start": 1}, "processes": [{"x": 1}]}',
        '{"version": 2, "supervisor": {"pid": 7, "start": 1}, "processes": [{"name": "a", "pid": 1,'
        ' "start": 0, "log": "a"}]}',
    ],
)
def test_a_state_file_of_another_shape_is_damaged_too(capsys, tmp_path, text, command):
    (tmp_path / "state.json").write_text(text)
    code, said = run(capsys, command, "--state-dir", str(tmp_path))
    assert code == 2
    assert f"{tmp_path}/state.json is damaged" in said
    assert "then remove the file" in said


def test_a_state_file_of_another_version_asks_for_that_version(capsys, tmp_path):
    (tmp_path / "state.json").write_text('{"version": 1, "supervisor": {"pid": 7, "start": 1}}')
    code, said = run(capsys, "down", "--state-dir", str(tmp_path))
    assert code == 2
    assert "was written by another version of envfarm" in said


@pytest.mark.parametrize("line", [b"{", b"\xff", b"[]", b"5", b'{"rollout_id": "a"}'])
def test_a_damaged_record_is_named_with_its_line(capsys, tmp_path, line):
    file = tmp_path / "jobs/j/conversations.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(RECORD + b"\n" + line + b"\n")
    code, said = run(capsys, "episode", "show", "ghost", "--records", str(tmp_path))
    assert code == 2
    assert f"{file}:2: not a recorded attempt" in said


def test_a_record_of_another_shape_is_one_line(capsys, tmp_path):
    file = tmp_path / "jobs/j/conversations.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(RECORD + b"\n")
    code, said = run(capsys, "episode", "show", "a", "--records", str(tmp_path))
    assert code == 2
    assert "the record of a cannot be shown" in said


def test_an_address_that_is_no_url_is_named(capsys):
    code, said = run(capsys, "episode", "show", "x", "--gateway", "http://localhost:seven")
    assert code == 2
    assert "--gateway http://localhost:seven" in said


def test_with_json_an_error_is_an_object_on_stdout_as_well(capsys, tmp_path):
    assert main(["status", "--json", "--state-dir", str(tmp_path)]) == 3
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    assert said["error"] == "NotRunning"
    assert said["exit_code"] == 3
    assert said["hint"]


class RefusesAll(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"detail": "the bearer token is not known here", "hint": ""}).encode()
        self.send_response(401)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


def test_a_wrong_token_says_which_one_is_wanted(capsys):
    server = HTTPServer(("127.0.0.1", 0), RefusesAll)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        code, said = run(capsys, "episode", "show", "x", "--gateway", url, "--token", "wrong")
    finally:
        server.shutdown()
        server.server_close()
    assert code == 2
    assert "the bearer token is not known here" in said
    assert "--token" in said


def test_a_gateway_that_is_not_there_is_named(capsys):
    code, said = run(capsys, "episode", "show", "x", "--gateway", "http://127.0.0.1:9")
    assert code == 3
    assert "http://127.0.0.1:9/v1/rollouts/x" in said


def test_a_record_that_does_not_exist_is_named(capsys, tmp_path):
    (tmp_path / "jobs").mkdir()
    code, said = run(capsys, "episode", "show", "ghost", "--records", str(tmp_path))
    assert code == 2
    assert "there is no attempt 'ghost'" in said


def test_a_full_disk_says_where_and_what_to_do(tmp_path):
    failure = as_failure(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/state.json"))
    assert failure.message == "/data/state.json: No space left on device"
    assert "--state-dir" in failure.hint


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("bad file"), 2),
        (Unauthenticated("who are you"), 2),
        (UnknownTask("no such task"), 2),
        (EngineError("dead"), 1),
        (ConnectionRefusedError(111, "Connection refused"), 3),
        (ValueError("a fault of ours"), 1),
    ],
)
def test_every_error_has_an_exit_code(error, code):
    assert as_failure(error).exit_code == code


def test_the_demo_looks_for_its_files_before_it_starts_anything(capsys, tmp_path):
    missing = str(tmp_path / "none.toml")
    arguments = ("demo", "--recipe", missing, "--domains", str(DOMAINS))
    code, said = run(capsys, *arguments, "--state-dir", str(tmp_path / "state"))
    assert code == 2
    assert missing in said
    assert not (tmp_path / "state").exists()
