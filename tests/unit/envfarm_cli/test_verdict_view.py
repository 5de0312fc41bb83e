"""How `envfarm verdict show` prints a verdict, and what it refuses."""

import io
import json
from pathlib import Path

import pytest
from envfarm.v1 import evidence_pb2, verdict_pb2
from google.protobuf import json_format
from rich.console import Console

from envfarm_cli import commands_verdict, verdict_view
from envfarm_cli.failure import BadInput, NotRunning
from envfarm_cli.state_dir import StateDir


def verdict(**fields) -> dict:
    message = verdict_pb2.Verdict(
        verdict_id="v-0123456789",
        request_id="r",
        status=verdict_pb2.VERDICT_STATUS_GRADED,
        reward=0.0,
        checks=[
            verdict_pb2.CheckResult(
                name="end", kind="state", passed=False, expected="\x1b[31m", observed="x" * 900
            )
        ],
        diff=[
            evidence_pb2.RowChange(
                table="orders",
                key_json='{"id":7}',
                op=evidence_pb2.ROW_OP_UPDATE,
                before_json='{"id":7,"total":1}',
                after_json='{"id":7,"total":2}',
            )
        ],
        input=verdict_pb2.GRADE_INPUT_DSN,
        grader_hash="ab" * 32,
        **fields,
    )
    message.task.task_id = "shop/t"
    message.timings.evidence_seconds = 0.002
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def shown(value: dict, *, whole: bool = False) -> str:
    console = Console(file=io.StringIO(), width=4000)
    console.print(verdict_view.render(value, whole=whole))
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def test_it_shows_status_reward_checks_and_the_row_diff_by_table_and_key():
    text = shown(verdict())
    for part in (
        "shop/t",
        "graded, reward 0",
        "✗",
        "end",
        "orders",
        "7",
        "updated",
        "total: 1 → 2",
    ):
        assert part in text
    assert "by dsn" in text and "evidence 2.0" in text


def test_long_texts_are_shortened_with_their_length_and_whole_shows_them():
    assert "500 more characters" in shown(verdict())
    assert "x" * 900 in shown(verdict(), whole=True)
    assert "ab" * 32 in shown(verdict(), whole=True)


def test_foreign_text_cannot_steer_the_terminal():
    assert "\x1b" not in shown(verdict())


def test_without_a_reward_it_says_so_and_why():
    value = verdict(ungradable_reason="no golden snapshot")
    del value["reward"]
    value["status"] = "VERDICT_STATUS_UNGRADABLE"
    assert "ungradable, no reward" in shown(value)
    assert "no golden snapshot" in shown(value)


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '"x"'])
def test_a_file_that_holds_no_verdict_is_refused_in_one_line(text: str, tmp_path: Path):
    file = tmp_path / "v.json"
    file.write_text(text)
    with pytest.raises(BadInput):
        commands_verdict.show(str(file))


def test_a_saved_answer_is_shown_without_a_grader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "v.json"
    file.write_text(json.dumps(verdict()))
    assert commands_verdict.show(str(file), json=True) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == verdict()


def test_without_a_grader_it_says_how_to_name_one(tmp_path: Path):
    with pytest.raises(NotRunning, match="no grader runs"):
        commands_verdict._door("", "", StateDir(tmp_path))
