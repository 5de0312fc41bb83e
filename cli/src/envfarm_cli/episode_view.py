"""One recorded attempt as rich text and as plain values: conversation, state diff, verdict."""

import json
from typing import Any

from envfarm.v1 import evidence_pb2, group_pb2, trajectory_pb2, verdict_pb2
from google.protobuf import json_format
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

_KINDS = {
    trajectory_pb2.TURN_KIND_SYSTEM: ("system", "dim"),
    trajectory_pb2.TURN_KIND_USER: ("user", "cyan"),
    trajectory_pb2.TURN_KIND_ASSISTANT: ("agent", "green"),
}
_OPS = {
    evidence_pb2.ROW_OP_INSERT: "inserted",
    evidence_pb2.ROW_OP_UPDATE: "updated",
    evidence_pb2.ROW_OP_DELETE: "deleted",
}
SYSTEM_CHARACTERS = 300
RESULT_CHARACTERS = 400


def as_values(rollout: group_pb2.Rollout) -> dict[str, Any]:
    """For --json: the record's own field names; without tokens, which are long."""
    value = json_format.MessageToDict(rollout, preserving_proto_field_name=True)
    for name in ("token_ids", "loss_mask", "logprobs"):
        value.get("trajectory", {}).pop(name, None)
    value["tokens"] = len(rollout.trajectory.token_ids)
    value["sampled_tokens"] = sum(rollout.trajectory.loss_mask)
    value["status"] = status_name(rollout)
    return value


def status_name(rollout: group_pb2.Rollout) -> str:
    name = trajectory_pb2.RolloutStatus.Name(rollout.trajectory.status)
    return name.removeprefix("ROLLOUT_STATUS_").lower()


def render(rollout: group_pb2.Rollout, *, whole: bool = False) -> Group:
    """Everything a person wants to see; `whole` also prints long texts in full."""
    trajectory = rollout.trajectory
    parts: list[Any] = [_heading(rollout)]
    for turn in trajectory.turns:
        parts += _turn(turn, whole)
    parts += [Text(), _diff(rollout.verdict), Text(), _verdict(rollout.verdict)]
    return Group(*parts)


def _heading(rollout: group_pb2.Rollout) -> Panel:
    trajectory = rollout.trajectory
    versions = sorted({span.version_number for span in trajectory.version_spans})
    line = Text()
    line.append(f"{trajectory.task.task_id}  ", "bold")
    line.append(f"{status_name(rollout)}, {_reward(rollout.verdict)}\n")
    line.append(f"attempt {rollout.rollout_id}, episode {rollout.episode_id}\n", "dim")
    line.append(
        f"{len(trajectory.token_ids)} tokens, {sum(trajectory.loss_mask)} of them sampled, under "
        f"policy version {', '.join(map(str, versions)) or '-'}; {rollout.seconds:.1f} s",
        "dim",
    )
    return Panel(line, expand=False)


def _turn(turn: trajectory_pb2.Turn, whole: bool) -> list[Text]:
    if turn.kind == trajectory_pb2.TURN_KIND_TOOL:
        # Its text repeats what stands beside the calls.
        return []
    name, style = _KINDS.get(turn.kind, ("?", ""))
    lines: list[Text] = []
    if turn.reasoning:
        lines.append(_line("thinks", "dim italic", _clean(turn.reasoning)))
    if turn.text:
        text = _clean(turn.text)
        is_long = turn.kind == trajectory_pb2.TURN_KIND_SYSTEM and not whole
        lines.append(_line(name, style, _short(text, SYSTEM_CHARACTERS) if is_long else text))
    for call in turn.calls:
        lines.append(
            _line("calls", "yellow", f"{_clean(call.name)}({_arguments(call.arguments_json)})")
        )
        content = _clean(call.content)
        shown = content if whole else _short(content, RESULT_CHARACTERS)
        lines.append(
            _line(
                "refused" if call.is_error else "answer", "red" if call.is_error else "dim", shown
            )
        )
    return lines


def _line(name: str, style: str, text: str) -> Text:
    line = Text(f"{name:>8}  ", style=style)
    line.append(text.replace("\n", "\n" + " " * 10), "" if style != "dim" else "dim")
    return line


def _diff(verdict: verdict_pb2.Verdict) -> Table | Text:
    if not verdict.diff:
        return Text("The database was not changed.", "dim")
    table = Table("table", "row", "change", "columns", title="state diff", title_justify="left")
    for change in verdict.diff:
        before = json.loads(change.before_json or "{}")
        after = json.loads(change.after_json or "{}")
        columns = [
            f"{name}: {_value(before.get(name))} → {_value(after.get(name))}"
            if before and after
            else f"{name}: {_value((after or before).get(name))}"
            for name in (after or before)
            if before.get(name) != after.get(name)
        ]
        table.add_row(
            *(Text(_clean(text)) for text in (change.table, change.key_json)),
            _OPS.get(change.op, "?"),
            Text(_clean("\n".join(columns))),
        )
    return table


def _verdict(verdict: verdict_pb2.Verdict) -> Table | Text:
    if verdict.status == verdict_pb2.VERDICT_STATUS_UNSPECIFIED:
        return Text("No verdict.", "dim")
    title = f"verdict: {_reward(verdict)}"
    if verdict.ungradable_reason:
        title += f", {_clean(verdict.ungradable_reason)}"
    table = Table("", "check", "kind", "expected", "observed", title=title, title_justify="left")
    for check in verdict.checks:
        mark = Text("✓", "green") if check.passed else Text("✗", "red")
        cells = (check.name, check.kind, check.expected, check.observed)
        table.add_row(mark, *(Text(_short(_clean(cell), RESULT_CHARACTERS)) for cell in cells))
    return table


def _reward(verdict: verdict_pb2.Verdict) -> str:
    if verdict.status == verdict_pb2.VERDICT_STATUS_UNGRADABLE:
        return "ungradable"
    return f"reward {verdict.reward:g}" if verdict.HasField("reward") else "no reward"


def _arguments(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return _clean(text)
    if not isinstance(value, dict):
        return _clean(text)
    return ", ".join(f"{_clean(name)}={_value(item)}" for name, item in value.items())


def _value(value: Any) -> str:
    return _clean(json.dumps(value, ensure_ascii=False))


def _short(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit} more characters, see --whole)"


def _clean(text: str) -> str:
    """Text that is not ours must not steer the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)
