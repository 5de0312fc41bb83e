"""One recorded attempt as rich text: conversation, state diff, verdict.

Takes the gateway's readable form of an attempt: a line of conversations.jsonl, or what its HTTP
door answers at /v1/rollouts/{id}.
"""

import json
from typing import Any

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

_STYLES = {"system": ("system", "dim"), "user": ("user", "cyan"), "assistant": ("agent", "green")}
_OPS = {"insert": "inserted", "update": "updated", "delete": "deleted"}
SYSTEM_CHARACTERS = 300
RESULT_CHARACTERS = 400


def render(attempt: dict[str, Any], *, whole: bool = False) -> Group:
    """Everything a person wants to see; `whole` also prints long texts in full."""
    parts: list[Any] = [_heading(attempt)]
    for turn in attempt["turns"]:
        parts += _turn(turn, whole)
    verdict = attempt["verdict"]
    if verdict is None:
        parts += [Text(), Text("No verdict.", "dim")]
    else:
        parts += [Text(), _diff(verdict["diff"]), Text(), _verdict(verdict)]
    return Group(*parts)


def _heading(attempt: dict[str, Any]) -> Panel:
    versions = ", ".join(map(str, attempt["versions"])) or "-"
    line = Text()
    line.append(f"{_clean(attempt['task_id'])}  ", "bold")
    line.append(f"{attempt['status']}, {_reward(attempt['reward'])}\n")
    line.append(f"attempt {attempt['rollout_id']}, episode {attempt['episode_id'] or '-'}\n", "dim")
    line.append(
        f"{attempt['tokens']} tokens, {attempt['sampled_tokens']} of them sampled, under policy "
        f"version {versions}; {attempt['seconds']:.1f} s",
        "dim",
    )
    if failure := attempt["failure"]:
        said = f"{failure['error_class']} at {failure['boundary']}: {failure['message']}"
        line.append(f"\n{_clean(said)}", "red")
    return Panel(line, expand=False)


def _turn(turn: dict[str, Any], whole: bool) -> list[Text]:
    if turn["kind"] == "tool":
        # Its text repeats what stands beside the calls.
        return []
    name, style = _STYLES.get(turn["kind"], ("?", ""))
    lines: list[Text] = []
    if reasoning := turn.get("reasoning"):
        lines.append(_line("thinks", "dim italic", _clean(reasoning)))
    if text := _clean(turn["text"]):
        is_long = turn["kind"] == "system" and not whole
        lines.append(_line(name, style, _short(text, SYSTEM_CHARACTERS) if is_long else text))
    for call in turn.get("calls", ()):
        said = f"{_clean(call['name'])}({_arguments(call['arguments'])})"
        lines.append(_line("calls", "yellow", said))
        content = _clean(call["content"])
        shown = content if whole else _short(content, RESULT_CHARACTERS)
        label, colour = ("refused", "red") if call["is_error"] else ("answer", "dim")
        lines.append(_line(label, colour, shown))
    return lines


def _line(name: str, style: str, text: str) -> Text:
    line = Text(f"{name:>8}  ", style=style)
    line.append(text.replace("\n", "\n" + " " * 10), "" if style != "dim" else "dim")
    return line


def _diff(changes: list[dict[str, Any]]) -> Table | Text:
    if not changes:
        return Text("The database was not changed.", "dim")
    table = Table("table", "row", "change", "columns", title="state diff", title_justify="left")
    for change in changes:
        before, after = change["before"] or {}, change["after"] or {}
        columns = [
            f"{name}: {_value(before.get(name))} → {_value(after.get(name))}"
            if before and after
            else f"{name}: {_value((after or before).get(name))}"
            for name in (after or before)
            if before.get(name) != after.get(name)
        ]
        key = ", ".join(map(_value, (change["key"] or {}).values()))
        table.add_row(
            Text(_clean(change["table"])),
            Text(key),
            _OPS.get(change["op"], "?"),
            Text("\n".join(_clean(column) for column in columns)),
        )
    return table


def _verdict(verdict: dict[str, Any]) -> Table:
    title = f"verdict: {verdict['status']}, {_reward(verdict['reward'])}"
    table = Table("", "check", "kind", "expected", "observed", title=title, title_justify="left")
    for check in verdict["checks"]:
        mark = Text("✓", "green") if check["passed"] else Text("✗", "red")
        cells = (check[name] for name in ("name", "kind", "expected", "observed"))
        table.add_row(mark, *(Text(_short(_clean(cell), RESULT_CHARACTERS)) for cell in cells))
    return table


def _reward(reward: float | None) -> str:
    return "no reward" if reward is None else f"reward {reward:g}"


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
