"""docs/authoring.md as a new user goes through it: its commands and files, literally, from an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.envfarm_command import ROOT

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1800)]
TEXT = (ROOT / "docs/authoring.md").read_text()
EXAMPLE = TEXT.partition("## From an empty folder")[2].partition("## The commands")[0]
STEP = re.compile(
    r"(?:^`(?P<file>domains/[^`]+)`\n\n)?^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.M | re.S
)


def test_the_worked_example_runs_as_it_stands(tmp_path: Path):
    steps = list(STEP.finditer(EXAMPLE))
    assert [step["kind"] for step in steps].count("sh") == 5
    assert sum(step["file"] is not None for step in steps) == 3
    tools = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    said = ""
    for step in steps:
        if step["file"]:
            path = tmp_path / step["file"]
            assert "FILL IN" in path.read_text(), "`tasks new` has written it with gaps"
            path.write_text(step["body"])
            continue
        done = subprocess.run(
            ["bash", "-e", "-c", step["body"]],
            cwd=tmp_path,
            env=tools,
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert done.returncode == 0, (step["body"], done.stdout[-3000:], done.stderr)
        said += done.stdout
    assert "1 of 1 worlds keep their promises" in said
    assert "1 of 1 tasks proved, 19 of 19 mutants caught" in said
    assert "reward 1" in said
    assert "2 of 2 tasks proved" in said
    assert "declare more near misses" not in said
