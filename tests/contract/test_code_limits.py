"""The house's limits, so that they are a fact and not a wish."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 80
MAX_LOOP_FILE_LINES = 250
MAX_COMMON_LINES = 1040
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "manager", "misc"}


def sources() -> list[Path]:
    found = [
        path
        for folder in ("proto", "services", "learner", "cli", "domains", "requirements", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if "envfarm/v1" not in path.as_posix() and ".venv" not in path.parts
    ]
    assert len(found) > 20
    return found


def test_no_file_is_longer_than_the_limit():
    long = {
        str(path.relative_to(ROOT)): lines
        for path in sources()
        if (lines := len(path.read_text().splitlines())) > MAX_FILE_LINES
    }
    assert long == {}


def test_no_function_is_longer_than_the_limit():
    long = {
        f"{path.relative_to(ROOT)}:{node.name}": node.end_lineno - node.lineno + 1
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_the_training_loop_stays_readable():
    loop = ROOT / "learner/src/learner/train.py"
    assert len(loop.read_text().splitlines()) <= MAX_LOOP_FILE_LINES


def test_the_common_package_stays_small():
    files = (ROOT / "services/common/src/envfarm_common").glob("*.py")
    assert sum(len(path.read_text().splitlines()) for path in files) <= MAX_COMMON_LINES


def test_no_file_has_a_name_that_says_nothing():
    assert [path for path in sources() if path.stem in FORBIDDEN_NAMES] == []


@pytest.mark.parametrize("folder", ["learner", "proto"])
def test_a_top_level_folder_does_not_shadow_its_package(folder: str):
    assert not (ROOT / folder / "__init__.py").exists()
