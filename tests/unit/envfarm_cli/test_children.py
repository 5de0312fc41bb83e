"""Children: ready files, last words, and an end to all of them."""

import os
import shutil
import sys

import pytest

from envfarm_cli.children import ChildSet, died, last_words
from envfarm_cli.failure import BadInput, ChildFailed
from envfarm_cli.process_table import group_members, identify

ENV = {"PATH": os.defpath}


def test_the_ready_file_gives_the_addresses(tmp_path):
    ready = tmp_path / "ready.json"
    code = f"import time; open({str(ready)!r}, 'w').write('{{\"http\": \"127.0.0.1:1\"}}'); time.sleep(99)"
    with ChildSet() as children:
        child = children.start(
            "x", [sys.executable, "-c", code], env=ENV, log=tmp_path / "x.log", ready_file=ready
        )
        assert children.wait_ready(child, 30)["http"] == "http://127.0.0.1:1"


def test_an_old_ready_file_is_not_believed(tmp_path):
    ready = tmp_path / "ready.json"
    ready.write_text('{"http": "stale"}')
    with ChildSet() as children:
        child = children.start(
            "x", ["sleep", "99"], env=ENV, log=tmp_path / "x.log", ready_file=ready
        )
        with pytest.raises(ChildFailed, match=r"x was not ready after 0 s"):
            children.wait_ready(child, 0.2)


def test_a_child_that_ends_while_starting_is_reported_with_its_last_words(tmp_path):
    code = "import sys; print('error: settings: X_TOKEN: Field required', file=sys.stderr); sys.exit(1)"
    with ChildSet() as children:
        child = children.start("x", [sys.executable, "-c", code], env=ENV, log=tmp_path / "x.log")
        with pytest.raises(ChildFailed) as caught:
            children.wait_ready(child, 30)
    assert "exit status 1" in caught.value.message
    assert caught.value.message.endswith("settings: X_TOKEN: Field required")
    assert str(tmp_path / "x.log") in caught.value.hint


def test_a_killed_child_is_reported_with_its_signal(tmp_path):
    with ChildSet() as children:
        child = children.start("x", ["sleep", "99"], env=ENV, log=tmp_path / "x.log")
        child.process.kill()
        child.process.wait()
        assert "SIGKILL" in died(child, "while serving").message


def test_on_a_full_disk_the_hint_is_to_free_room(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=4096)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with ChildSet() as children:
        child = children.start("x", ["false"], env=ENV, log=tmp_path / "x.log")
        with pytest.raises(ChildFailed) as caught:
            children.wait_ready(child, 30)
    assert caught.value.hint == f"free some room on the disk of {tmp_path}, which has 4 KiB left"


def test_leaving_the_block_ends_whole_groups_in_reverse_order(tmp_path):
    order = []
    with ChildSet(lambda: order.append([c.name for c in children.children])) as children:
        for name in ("first", "second"):
            children.start(
                name, ["sh", "-c", "sleep 99 & sleep 99"], env=ENV, log=tmp_path / f"{name}.log"
            )
        identities = [child.identity for child in children.children]
        assert all(group_members(identity) for identity in identities)
    assert order == [["first"], ["first", "second"], ["first"], []]
    assert not any(group_members(identity) for identity in identities)
    assert all(identify(identity.pid) is None for identity in identities)


def test_a_log_that_cannot_be_written_is_bad_input(tmp_path):
    (tmp_path / "file").write_text("")
    with ChildSet() as children, pytest.raises(BadInput, match="x cannot be started"):
        children.start("x", ["true"], env=ENV, log=tmp_path / "file" / "x.log")


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", "it said nothing"),
        ("one\ntwo\n", "two"),
        ("error: no room\nlater line\n", "no room"),
        ('{"message": "stopping", "level": "info"}\n', "stopping"),
        ("Traceback\nValueError: bad\n", "ValueError: bad"),
    ],
)
def test_last_words(tmp_path, log, words):
    (tmp_path / "log").write_text(log)
    assert last_words(tmp_path / "log") == words
