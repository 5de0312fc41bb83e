"""Reading row files by several processes gives what reading them in one piece gives."""

import os
import sys

import pytest
from envfarm.errors import ConfigError
from hypothesis import given, settings
from hypothesis import strategies as st

from envfarm_numbers import pieces
from envfarm_numbers.counts import count, read_counts
from envfarm_numbers.pieces import Piece
from envfarm_numbers.rows import read_campaign
from tests.support.attempts import row, rows_of, write_rows

ROWS = [
    *rows_of({"orders/a": (3, 9), "orders/b": (1, 9), "shop/c": (0, 9)}),
    row("shop/d", 0, None),
]


@pytest.fixture
def three_processes(monkeypatch):
    """As on three cores, and with files that are large enough."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(pieces, "LEAST_BYTES", 1)


@pytest.fixture
def files(tmp_path, three_processes):
    """Two row files of one campaign."""
    first = write_rows(tmp_path / "1" / "attempts.jsonl", ROWS[:20])
    return first, write_rows(tmp_path / "2" / "attempts.jsonl", ROWS[20:])


def refused(path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_counts(path)
    return caught.value.message


def test_several_processes_count_what_one_counts(tmp_path, files, monkeypatch):
    assert len(pieces._shares(files, 3)) == 3
    together = read_counts(tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert together == read_counts(tmp_path) == count(read_campaign(tmp_path))
    assert together.rows == len(ROWS)


def test_a_wrong_line_of_another_process_is_named_by_its_number_in_the_file(tmp_path, files):
    lines = files[1].read_text().splitlines(keepends=True)
    files[1].write_text("".join([*lines[:6], "{}\n", *lines[6:]]))
    assert refused(tmp_path).startswith(f"{files[1]}:7: missing keys: attempt")


def test_rows_of_two_processes_that_exclude_each_other_are_refused_with_both_places(
    tmp_path, files
):
    with files[1].open("a") as file:
        file.write(ROWS[2].to_json() + "\n")
    assert refused(tmp_path) == (
        f"{files[1]}:9: attempt 1 of repetition 2 of orders/a is already in {files[0]}:3"
    )


def test_a_last_line_without_its_end_is_left_out_by_its_process(tmp_path, files):
    with files[1].open("a") as file:
        file.write('{"task_id": "orders/a", "rep')
    assert read_counts(tmp_path).rows == len(ROWS)


def test_a_process_that_comes_to_nothing_costs_time_and_nothing_else(tmp_path, files, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert read_counts(tmp_path).rows == len(ROWS)


def test_a_pipe_is_read_here_and_once(tmp_path, three_processes):
    text = "".join(one.to_json() + "\n" for one in ROWS)
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    os.close(writing)
    try:
        assert read_counts(tmp_path / f"/dev/fd/{reading}").rows == len(ROWS)
    finally:
        os.close(reading)


def test_small_files_start_no_process(tmp_path):
    path = write_rows(tmp_path / "attempts.jsonl", ROWS)
    assert pieces._shares([path], 16) == [[Piece(str(path))]]


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.lists(st.integers(0, 30), max_size=8), min_size=1, max_size=5),
    processes=st.integers(2, 5),
    ended=st.booleans(),
)
def test_pieces_are_whole_lines_and_every_byte_once_in_order(
    tmp_path_factory, lengths, processes, ended
):
    folder = tmp_path_factory.mktemp("cut")
    files, sizes = [], []
    for number, of_lines in enumerate(lengths):
        path = folder / str(number)
        text = "\n".join("x" * length for length in of_lines)
        path.write_text(text + "\n" * ended)
        files.append(path)
        sizes.append(path.stat().st_size)
    shares = pieces._cut(files, sizes, processes)
    assert len(shares) <= processes
    found = {str(path): b"" for path in files}
    for piece in (piece for share in shares for piece in share):
        data = open(piece.path, "rb").read()
        assert piece.start == len(found[piece.path])
        assert piece.start == 0 or data[piece.start - 1 : piece.start] == b"\n"
        found[piece.path] += data[piece.start : piece.end]
    assert list(found.values()) == [path.read_bytes() for path in files]
