"""Why initdb failed, from what it printed."""

import pytest

from env_server.postgres import why_initdb_failed

FULL = """creating configuration files ... ok
running bootstrap script ... 2026-03-02 09:00:00.000 UTC [7] FATAL:  could not extend file "base/1/1255": No space left on device
2026-03-02 09:00:00.000 UTC [7] HINT:  Check free disk space.
child process exited with exit code 1
initdb: removing data directory "/data/pg"
"""


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (FULL, "No space left on device"),
        ('initdb: error: could not create directory "/d": No space left on device\n', "/d"),
        ("something else\n", "something else"),
    ],
)
def test_the_first_complaint_is_the_reason(output: str, said: str):
    assert said in why_initdb_failed(output)


def test_nothing_said_gives_nothing():
    assert why_initdb_failed("\n") == ""
