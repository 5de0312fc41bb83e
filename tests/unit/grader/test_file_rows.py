"""Files as rows: the same on both sides of the wire, and none that a folder could not hold."""

import pytest
from envfarm.canonical import canonical_json
from envfarm.errors import InvalidArgument
from hypothesis import given
from hypothesis import strategies as st

from env_server import episode_files, file_view
from grader import evidence_kinds, file_rows
from grader.check_kinds import UntouchedCheck
from grader.checks import untouched
from grader.evidence import Change, Evidence, Table

NAMES = st.text("abcXYZ09 ._-/\u0430\n\0", max_size=30)


def test_both_sides_have_the_same_table():
    table = episode_files.TABLE
    assert (table.name, table.columns, table.key_columns) == (
        file_rows.TABLE,
        file_rows.COLUMNS,
        file_rows.KEY,
    )
    assert episode_files.TEXT_BYTES == file_rows.TEXT_BYTES
    assert (file_view.MAX_PATH, file_view.MAX_DEPTH) == (file_rows.MAX_PATH, file_rows.MAX_DEPTH)


@given(NAMES)
def test_a_path_is_allowed_on_both_sides_or_on_none(path: str):
    row = canonical_json({"path": path, "bytes": 9, "sha256": "0" * 64, "text": None})
    if file_view.path_fault(path):
        with pytest.raises(InvalidArgument, match="relative path"):
            file_rows.checked([row])
    else:
        assert file_rows.checked([row]) == [row]


CONTENTS = st.one_of(st.binary(max_size=40), st.text(max_size=40).map(str.encode))


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), CONTENTS, max_size=5))
def test_what_an_env_server_tells_is_what_a_caller_may_send(files: dict[str, bytes]):
    told = list(episode_files.rows_of(files).canonical)
    assert file_rows.checked(told) == told
    assert file_rows.checked(told[::-1]) == told


def test_a_large_file_has_no_text_and_still_its_hash():
    (row,) = episode_files.rows_of({"a": b"x" * (file_rows.TEXT_BYTES + 1)}).canonical
    assert '"text":null' in row
    assert file_rows.checked([row]) == [row]


def test_the_registry_knows_which_kind_a_table_is_of():
    assert list(evidence_kinds.KINDS) == ["postgres", "files"]
    assert evidence_kinds.kind_of("orders").name == "postgres"
    assert evidence_kinds.kind_of("episode_files").name == "files"
    assert evidence_kinds.in_database(["a", "episode_files", "b"]) == ["a", "b"]


def test_a_file_can_be_watched_like_a_row():
    evidence = Evidence(
        episode_id="",
        task_id="t/t",
        task_hash="a" * 64,
        world_hash="b" * 64,
        initial_state_hash="c" * 64,
        final_state_hash="d" * 64,
        tables={
            file_rows.TABLE: Table(
                name=file_rows.TABLE,
                rows=1,
                hash="e" * 64,
                key_columns=file_rows.KEY,
                columns=file_rows.COLUMNS,
            )
        },
        changes=[
            Change(
                table=file_rows.TABLE,
                op="delete",
                key='{"path":"a"}',
                before=canonical_json({"path": "a", "bytes": 0, "sha256": "0" * 64, "text": ""}),
            )
        ],
    )
    for path, passed in (("a", False), ("b", True)):
        check = UntouchedCheck(
            name="it stays", kind="untouched", tables=[file_rows.TABLE], where={"path": path}
        )
        assert untouched.run(check, evidence).passed is passed
