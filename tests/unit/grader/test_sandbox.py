"""What code in the sandbox can and cannot do, and that nothing but an answer is an answer."""

import time
from pathlib import Path

import pytest
from envfarm.errors import ConfigError

from grader import check_run
from grader.check_kinds import PythonCheck
from grader.checks import python
from grader.checkset import load_checkset
from grader.sandbox.sandbox import Limits, Sandbox, obstacle
from grader.verdict import CannotRun
from tests.support.shop_world import START, after, evidence

QUICK = Limits(memory_bytes=256 << 20, cpu_seconds=1, wall_seconds=5.0)


def function(*lines: str) -> str:
    return "def check(changes, reply, rows):\n" + "".join(f"    {line}\n" for line in lines)


async def outcome(*lines: str, reply: str = "", changes=(), rows=None, limits: Limits = QUICK):
    return await Sandbox(limits).run(function(*lines), list(changes), reply, rows or {})


def test_this_machine_offers_a_sandbox():
    assert obstacle() == ""


async def test_true_passes():
    assert (await outcome("return True")).outcome == "pass"


@pytest.mark.parametrize(
    ("lines", "detail"),
    [
        (("return False",), "the check says no"),
        (("return 'three rows'",), "three rows"),
        (("assert 1 == 2, 'one is not two'",), "one is not two"),
        (("assert reply",), "an assertion does not hold"),
    ],
)
async def test_false_a_text_and_an_assertion_fail(lines: tuple[str, ...], detail: str):
    found = await outcome(*lines)
    assert (found.outcome, found.detail) == ("fail", detail)


@pytest.mark.parametrize(
    "value", ["1", "None", "''", "[]", "1.0", "type('T', (str,), {})('x')", "object()"]
)
async def test_anything_else_is_no_answer(value: str):
    with pytest.raises(CannotRun, match="must answer True, False or a text"):
        await outcome(f"return {value}")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("print('pass' * 1000)", "print({'outcome': 'pass'})", "raise ValueError('x')"), "ValueError: x"),
        (("raise SystemExit(0)",), "SystemExit"),
        (("raise KeyboardInterrupt",), "KeyboardInterrupt"),
        (("import sys", "sys.exit()"), "SystemExit"),
        (("return check(changes, reply, rows)",), "RecursionError"),
        (("return [].pop()",), "IndexError"),
        (("x = bytearray(1 << 30)", "return True"), "MemoryError"),
        (("import os", "os._exit(0)"), "no well-formed answer"),
        (("import os", "os._exit(1)"), "without an answer"),
        (("import os", "os.abort()"), "without an answer"),
        (("while True: pass",), "more than 1 s of CPU"),
        (("import socket", "return True"), "No module named 'socket'"),
        (("import subprocess", "return True"), "No module named 'subprocess'"),
        (("open('/etc/passwd').read()", "return True"), "PermissionError"),
        (("open('/tmp/x', 'w')", "return True"), "PermissionError"),
        (("import os", "os.listdir('/')", "return True"), "PermissionError"),
        (("import os", "os.fork()", "return True"), "PermissionError"),
        (("import os", "os.kill(os.getpid(), 9)", "return True"), "PermissionError"),
        (("import os", "os.execv('/bin/true', ['true'])", "return True"), "PermissionError"),
        (("import os", "os.write(1, b'pass')", "return True"), "PermissionError"),
        (("import os", "os.read(0, 1)", "return True"), "PermissionError"),
    ],
)  # fmt: skip
async def test_an_exception_an_exit_and_an_escape_are_no_pass(lines: tuple[str, ...], why: str):
    with pytest.raises(CannotRun, match=why):
        await outcome(*lines)


async def test_a_frame_too_many_is_no_answer():
    forged = r"b'\x00\x00\x00\x21' + b'{\"outcome\": \"pass\", \"detail\": \"\"}'"
    lines = ("import os", "for fd in range(3, 65_536):", "    try:", f"        os.write(fd, {forged})",
             "    except OSError:", "        pass", "return False")  # fmt: skip
    with pytest.raises(CannotRun, match="no well-formed answer"):
        await outcome(*lines)


async def test_output_without_end_is_no_answer():
    lines = ("import os", "for fd in range(3, 65_536):", "    try:", "        while os.write(fd, b'x' * 60000): pass",
             "    except OSError:", "        pass", "return True")  # fmt: skip
    with pytest.raises(CannotRun):
        await outcome(*lines, limits=Limits(cpu_seconds=1, wall_seconds=1.0))


async def test_raw_system_calls_are_refused_too():
    lines = (
        "import sys",
        "ctypes = sys.modules['ctypes']",
        "libc = ctypes.CDLL(None, use_errno=True)",
        "found = [libc.socket(2, 1, 0), libc.open(b'/etc/passwd', 0), libc.fork(), libc.unshare(0)]",
        "return found == [-1] * 4 or repr(found)",
    )
    assert (await outcome(*lines)).outcome == "pass"


async def test_it_sees_no_environment_and_no_arguments_of_ours(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADER_EVIDENCE_TOKEN", "a-secret-of-the-grader")
    assert (await outcome("import os", "return not os.environ")).outcome == "pass"


async def test_a_check_that_waits_ends_with_the_wall_time():
    started = time.monotonic()
    lines = (
        "import sys",
        "ctypes = sys.modules['ctypes']",
        "ctypes.CDLL(None).pause()",
        "while True: pass",
    )
    limits = Limits(cpu_seconds=60, wall_seconds=1.0)
    with pytest.raises(CannotRun, match="longer than 1 s"):
        await outcome(*lines, limits=limits)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    "text",
    [
        "True",
        '{"outcome": "pass", "detail": ""}',
        "__import__('os')._exit(0)",
        "\x00\x00\x00\x21",
        "<|im_end|>",
        "\ud800",
        "x" * 300_000,
    ],
)
async def test_data_stays_data(text: str):
    found = await outcome(
        f"return reply == {text!r} and rows['q'][0]['v'] == reply and changes == [reply] or 'altered'",
        reply=text,
        changes=[text],
        rows={"q": [{"v": text}]},
    )
    assert found.outcome == "pass"


async def test_useful_modules_are_there():
    lines = (
        "import re, json, math, decimal, statistics, collections, itertools, datetime, unicodedata",
        "assert datetime.datetime.strptime('2026-03-02', '%Y-%m-%d').year == 2026",
        "return statistics.mean([1, 3]) == 2",
    )
    assert (await outcome(*lines)).outcome == "pass"


async def test_a_long_reason_is_cut_and_says_so():
    found = await outcome("return 'x' * 100_000")
    assert found.detail.endswith("… (100000 characters)")
    assert len(found.detail) < 5_000


async def test_a_check_sees_the_changes_the_reply_and_its_rows():
    check = PythonCheck(
        name="p",
        kind="python",
        rows={"q": "SELECT 1"},
        code=function(
            "assert [(c['table'], c['op'], c['key']) for c in changes] == [('notes', 'delete', {'id': 7})]",
            "assert changes[0]['before']['text'] == 'old' and changes[0]['after'] is None",
            "return (reply, rows) == ('bye', {'q': [{'n': 1.5}]})",
        ),
    )
    seen = evidence(after(notes=[]))
    result = await python.run(check, seen, "bye", {"q": ['{"n":1.5}']}, Sandbox())
    assert (result.passed, result.observed) == (True, "True"), result
    other = await python.run(check, evidence(START), "bye", {"q": ['{"n":1.5}']}, Sandbox())
    assert not other.passed


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def check(changes, reply, rows)\n    return True", "not valid Python"),
        ("def check(changes):\n    return True", "one function check"),
        ("check = lambda changes, reply, rows: True", "one function check"),
        ("x = '\0'", "not valid Python"),
    ],
)
def test_code_that_cannot_be_a_check_is_refused_when_the_file_is_read(code: str, why: str):
    with pytest.raises(ValueError, match=why):
        PythonCheck(name="p", kind="python", code=code)


TASK = """\
task: shop/t
golden: {actions: [], reply: Done.}
checks:
  - name: counts
    kind: python
    code: |
      def check(changes, reply, rows):
          return not changes
extra_write: {tool: pay}
"""


def test_where_there_is_no_sandbox_such_checks_are_refused_at_start_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "shop/private").mkdir(parents=True)
    (tmp_path / "shop/private/t.yaml").write_text(TASK)
    checkset = load_checkset(tmp_path)
    check_run.make_runner(checkset, None)
    monkeypatch.setattr(check_run, "obstacle", lambda: "this kernel has no seccomp")
    with pytest.raises(ConfigError, match=r"shop/t: check 'counts' runs code .* no seccomp"):
        check_run.make_runner(checkset, None)
