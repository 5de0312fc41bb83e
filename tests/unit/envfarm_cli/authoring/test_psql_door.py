"""The shell's way into psql: the episode's database, its password in nobody's sight, and an address where there is no psql."""

import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from envfarm_cli.authoring import world_shell
from envfarm_cli.authoring.world_shell import WorldShell
from envfarm_cli.output import Output

DSN = "host=127.0.0.1 port=6543 dbname=ef_slot user=owner password=s3cret"
WRITES_DOWN = """#!/bin/sh
echo "$@" > "$0.arguments"
passfile=$(echo "$@" | tr ' ' '\\n' | sed -n 's/^passfile=//p')
cat "$passfile" > "$0.passfile"
"""


def shell_with(programs: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[WorldShell, io.StringIO]:
    """A shell whose Postgres lies in this folder, without another psql; and what it prints."""
    monkeypatch.setenv("PATH", str(programs))
    server = SimpleNamespace(path=programs / "postgres")
    monkeypatch.setattr(world_shell, "find_postgres", lambda: server)
    out, printed = Output(as_json=False), io.StringIO()
    out.console = Console(file=printed, soft_wrap=True)
    nothing = cast("Any", None)
    shell = WorldShell(out, nothing, nothing, nothing, DSN)
    shell._session = cast("Any", SimpleNamespace(conninfo=DSN))
    return shell, printed


def test_psql_beside_the_postgres_gets_the_database_and_the_password_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    script = tmp_path / "psql"
    script.write_text(WRITES_DOWN.replace("#!/bin/sh\n", f"#!/bin/sh\nPATH={os.defpath}\n"))
    script.chmod(0o755)
    shell, printed = shell_with(tmp_path, monkeypatch)
    shell._command("\\psql")
    arguments = (tmp_path / "psql.arguments").read_text()
    assert "dbname=ef_slot" in arguments
    assert "port=6543" in arguments
    assert "s3cret" not in arguments
    assert (tmp_path / "psql.passfile").read_text() == "*:*:*:*:s3cret\n"
    assert printed.getvalue() == ""


def test_without_psql_the_address_of_the_database_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shell, printed = shell_with(tmp_path, monkeypatch)
    shell._command("\\psql")
    told, address = printed.getvalue().splitlines()
    assert "no psql" in told
    assert address == DSN
