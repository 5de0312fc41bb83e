import json
from dataclasses import replace

import pytest
from envfarm.errors import ConfigError

from envfarm_numbers.counts import count, read_counts
from envfarm_numbers.rows import read_campaign
from tests.support.attempts import row, rows_of, write_rows


def refused(path, reader) -> str:
    with pytest.raises(ConfigError) as caught:
        reader(path)
    return caught.value.message


@pytest.fixture(params=[read_campaign, read_counts], ids=["rows", "counts"])
def reader(request):
    return request.param


def test_rows_come_back_as_they_were_written(tmp_path):
    rows = rows_of({"orders/a": (1, 2), "orders/b": (0, 1)})
    path = write_rows(tmp_path / "attempts.jsonl", rows)
    assert read_campaign(path).rows == rows


def test_a_folder_is_all_row_files_below_it(tmp_path):
    write_rows(tmp_path / "jobs/1/attempts.jsonl", rows_of({"orders/a": (1, 1)}))
    write_rows(tmp_path / "jobs/2/attempts.jsonl", rows_of({"orders/b": (0, 1)}))
    assert [r.task_id for r in read_campaign(tmp_path).rows] == ["orders/a", "orders/b"]
    assert list(read_counts(tmp_path).tasks) == ["orders/a", "orders/b"]


def test_a_folder_with_rows_of_its_own_is_those_and_not_what_they_were_made_from(tmp_path):
    write_rows(tmp_path / "gateway/jobs/1/attempts.jsonl", rows_of({"orders/a": (1, 1)}))
    write_rows(tmp_path / "attempts.jsonl", rows_of({"orders/a": (1, 1)}))
    assert len(read_campaign(tmp_path).rows) == 1


def test_an_empty_folder_says_what_to_name(tmp_path, reader):
    assert "no attempts.jsonl" in refused(tmp_path, reader)


def test_a_line_without_its_end_is_counted_and_left_out(tmp_path):
    path = write_rows(tmp_path / "attempts.jsonl", rows_of({"orders/a": (1, 2)}))
    with path.open("a") as file:
        file.write('{"task_id": "orders/a", "rep')
    campaign = read_campaign(path)
    assert (len(campaign.rows), campaign.unfinished) == (2, 1)


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda v: v.pop("repetition"), "missing keys: repetition"),
        (lambda v: v.update(reward="1"), "reward cannot be '1'"),
        (lambda v: v.update(reward=0.5), "reward is 0.5; attempts pass (1) or do not (0)"),
        (lambda v: v.update(repetition=-1), "repetition cannot be -1"),
        (lambda v: v.update(interface="fax"), "interface cannot be 'fax'"),
        (lambda v: v.update(task_id=None), "task_id cannot be None"),
    ],
)
def test_a_wrong_row_is_named_with_its_line_and_key(tmp_path, reader, change, reason):
    path = write_rows(tmp_path / "attempts.jsonl", rows_of({"orders/a": (1, 1)}))
    value = json.loads(row("orders/a", 1).to_json())
    change(value)
    with path.open("a") as file:
        file.write(json.dumps(value) + "\n")
    assert refused(path, reader) == f"{path}:2: {reason}"


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda v: v.pop("status"), "missing keys: status"),
        (lambda v: v.update(colour="red"), "unknown keys: colour"),
    ],
)
def test_rows_are_checked_in_every_key_and_counts_in_the_first_row(tmp_path, change, reason):
    value = json.loads(row("orders/a", 1).to_json())
    change(value)
    path = tmp_path / "attempts.jsonl"
    path.write_text(json.dumps(value) + "\n")
    assert refused(path, read_counts) == f"{path}:1: {reason}"
    path.write_text(row("orders/a", 0).to_json() + "\n" + json.dumps(value) + "\n")
    assert refused(path, read_campaign) == f"{path}:2: {reason}"


def test_a_line_that_is_not_json_is_named(tmp_path, reader):
    path = tmp_path / "attempts.jsonl"
    path.write_text("null\n")
    assert refused(path, reader) == f"{path}:1: a row is a JSON object"
    path.write_bytes(b"\xff\xfe\n")
    assert refused(path, reader).startswith(f"{path}:1: ")


def test_a_key_that_is_there_twice_is_refused_with_both_places(tmp_path, reader):
    rows = [row("orders/a", 0, None), row("orders/a", 0, None)]
    path = write_rows(tmp_path / "attempts.jsonl", rows)
    assert refused(path, reader) == (
        f"{path}:2: attempt 1 of repetition 0 of orders/a is already in {path}:1"
    )


def test_two_rewards_for_one_repetition_are_refused(tmp_path, reader):
    path = write_rows(
        tmp_path / "attempts.jsonl", [row("orders/a", 0), row("orders/a", 0, 0.0, attempt=2)]
    )
    assert refused(path, reader) == (
        f"{path}:2: repetition 0 of orders/a has a reward already, in {path}:1"
    )


def test_a_task_that_changed_meanwhile_is_refused(tmp_path):
    rows = [row("orders/a", 0), row("orders/a", 1, task_hash="f" * 64)]
    path = write_rows(tmp_path / "attempts.jsonl", rows)
    assert "task_hash of orders/a is ffffffffffff" in refused(path, read_counts)
    with pytest.raises(ConfigError, match="task_hash of orders/a"):
        count(read_campaign(path))


def test_an_attempt_without_reward_is_excused_and_never_a_failure(tmp_path):
    rows = [
        row("orders/a", 0, None),
        row("orders/a", 0, 1.0, attempt=2),
        row("orders/a", 1, None, status="failed_grader"),
        row("orders/a", 2, 0.0),
    ]
    path = write_rows(tmp_path / "attempts.jsonl", rows)
    task = read_counts(path).tasks["orders/a"]
    assert (task.passed, task.clean, task.excused) == (1, 2, 2)


def test_both_ways_of_counting_agree(tmp_path):
    rows = [*rows_of({"orders/b": (3, 5), "shop/a": (0, 5)}), row("shop/a", 7, None)]
    path = write_rows(tmp_path / "attempts.jsonl", rows)
    assert count(read_campaign(path)) == read_counts(path)


def test_what_an_attempt_never_reached_leaves_no_identity(tmp_path):
    lost = replace(row("orders/a", 0, None), policy_hash="", task_hash="", world_hash="")
    path = write_rows(tmp_path / "attempts.jsonl", [lost, row("orders/a", 1)])
    found = read_counts(path)
    assert len(found.identity["policy_hash"]) == 1
    assert found.tasks["orders/a"].task_hash == row("orders/a", 1).task_hash


def test_blocks_of_rows_keep_their_line_numbers(tmp_path, reader, monkeypatch):
    monkeypatch.setattr("envfarm_numbers.rows._BLOCK_LINES", 3)
    rows = rows_of({"orders/a": (3, 5), "orders/b": (1, 5)})
    write_rows(tmp_path / "1" / "attempts.jsonl", rows[:5])
    path = write_rows(tmp_path / "2" / "attempts.jsonl", [*rows[5:], rows[6]])
    assert refused(tmp_path, reader) == (
        f"{path}:6: attempt 1 of repetition 1 of orders/b is already in {path}:2"
    )
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]) + "{}\n")
    assert refused(tmp_path, reader).startswith(f"{path}:5: missing keys")


def test_a_number_too_large_to_be_a_count_is_refused(tmp_path, reader):
    path = write_rows(tmp_path / "attempts.jsonl", [row("orders/a", 0), row("orders/a", 1)])
    path.write_text(path.read_text().replace('"repetition": 1', '"repetition": 1' + "0" * 30))
    assert refused(path, reader).startswith(f"{path}:2: ")


def test_a_folder_that_cannot_be_read_is_one_line(tmp_path, reader):
    assert "no such file or folder" in refused(tmp_path / "nowhere", reader)
    (tmp_path / "attempts.jsonl").mkdir()
    assert "cannot be read" in refused(tmp_path / "attempts.jsonl", reader) or "no attempts" in (
        refused(tmp_path / "attempts.jsonl", reader)
    )
