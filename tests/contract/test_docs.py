"""What the documents point at exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SKIPPED = {".venv", "node_modules", "runs"}
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def documents() -> list[Path]:
    found = [path for path in ROOT.rglob("*.md") if not SKIPPED & set(path.relative_to(ROOT).parts)]
    assert len(found) > 10
    return found


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_has_a_file(path: Path):
    targets = [target for target in LINK.findall(path.read_text()) if "://" not in target]
    assert [target for target in targets if not (path.parent / target).exists()] == []
