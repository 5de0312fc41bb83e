"""A verdict of the grader as rich text: status, checks, row diff by table and key, hashes, timings."""

import json
from typing import Any

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

_OPS = {
    "ROW_OP_INSERT": "inserted",
    "ROW_OP_UPDATE": "updated",
    "ROW_OP_DELETE": "deleted",
}
_HASHES = (
    "task_hash",
    "world_hash",
    "initial_state_hash",
    "final_state_hash",
    "evidence_hash",
    "checks_hash",
    "golden_hash",
    "rules_hash",
    "grader_hash",
)
CHARACTERS = 400


def render(verdict: dict[str, Any], *, whole: bool = False) -> Group:
    """Everything that stands in a verdict; `whole` also prints long texts and hashes in full."""
    return Group(
        _heading(verdict), _checks(verdict, whole), Text(), _diff(verdict, whole), Text(),
        _hashes(verdict, whole),
    )  # fmt: skip


def _heading(verdict: dict[str, Any]) -> Panel:
    reward = verdict.get("reward")
    status = verdict["status"].removeprefix("VERDICT_STATUS_").lower()
    line = Text()
    line.append(f"{clean(verdict['task']['task_id'])}  ", "bold")
    if reward is None:
        line.append(f"{status}, no reward", "yellow")
    else:
        line.append(f"{status}, reward {reward:g}", "green" if reward == 1.0 else "red")
    if verdict["ungradable_reason"]:
        line.append(f"\n{clean(verdict['ungradable_reason'])}", "yellow")
    source = verdict["input"].removeprefix("GRADE_INPUT_").lower()
    line.append(f"\nverdict {verdict['verdict_id']}, request {clean(verdict['request_id'])}", "dim")
    line.append(f"\nby {source} {clean(verdict['episode_id'])}".rstrip(), "dim")
    timings = verdict.get("timings") or {}
    parts = (
        f"{name.removesuffix('_seconds')} {1000 * value:.1f}" for name, value in timings.items()
    )
    line.append(f"; {1000 * verdict['seconds']:.1f} ms ({', '.join(parts)})", "dim")
    return Panel(line, expand=False)


def _checks(verdict: dict[str, Any], whole: bool) -> Table | Text:
    if not verdict["checks"]:
        return Text("No check ran.", "yellow")
    table = Table("", "check", "kind", "expected", "observed", title="checks", title_justify="left")
    for check in verdict["checks"]:
        mark = Text("✓", "green") if check["passed"] else Text("✗", "red")
        shown = [check["name"], check["kind"], check["expected"], check["observed"]]
        if check.get("judge"):
            shown[1] += f", {check['judge']}"
        table.add_row(mark, *(Text(_short(clean(text), whole)) for text in shown))
    return table


def _diff(verdict: dict[str, Any], whole: bool) -> Table | Text:
    if not verdict["diff"]:
        return Text("The database was not changed.", "dim")
    table = Table("table", "row", "change", "columns", title="row diff", title_justify="left")
    for change in verdict["diff"]:
        before, after = (json.loads(change[name] or "{}") for name in ("before_json", "after_json"))
        columns = [
            f"{name}: {_value(before.get(name))} → {_value(after.get(name))}"
            if before and after
            else f"{name}: {_value((after or before).get(name))}"
            for name in (after or before)
            if before.get(name) != after.get(name)
        ]
        table.add_row(
            Text(clean(change["table"])),
            Text(", ".join(map(_value, json.loads(change["key_json"]).values()))),
            _OPS.get(change["op"], "?"),
            Text(_short(clean("\n".join(columns)), whole)),
        )
    return table


def _hashes(verdict: dict[str, Any], whole: bool) -> Table:
    known = {**verdict, **verdict["task"], **(verdict.get("world") or {})}
    table = Table.grid(padding=(0, 2))
    for name in _HASHES:
        value = known.get(name) or "-"
        table.add_row(
            Text(name.removesuffix("_hash").replace("_", " "), "dim"),
            Text(value if whole else value[:16], "dim"),
        )
    return table


def _value(value: Any) -> str:
    return clean(json.dumps(value, ensure_ascii=False))


def _short(text: str, whole: bool) -> str:
    if whole or len(text) <= CHARACTERS:
        return text
    return f"{text[:CHARACTERS]}… ({len(text) - CHARACTERS} more characters, see --whole)"


def clean(text: str) -> str:
    """Text that is not ours must not steer the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)
