"""Ready files: whole or absent, also when the workers of one service write theirs at the same moment."""

import json
from pathlib import Path

from envfarm_common.lifecycle import write_ready


def test_workers_that_publish_at_once_do_not_take_each_others_file(tmp_path: Path, monkeypatch):
    """The second writes its own while the first is between writing and renaming."""
    first, second = tmp_path / "ready.0", tmp_path / "ready.1"
    rename = Path.replace

    def rename_late(self: Path, target: Path) -> Path:
        if target == first:
            write_ready(second, http="b")
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", rename_late)
    write_ready(first, http="a")
    assert [json.loads(path.read_text())["http"] for path in (first, second)] == ["a", "b"]
    assert sorted(tmp_path.iterdir()) == [first, second]
