"""What a dataset's test finds under `x.effects`: what each server told at the seal, completed by what only
the grader knows.

A server in an episode never knew a golden call, so what it tells as golden is that of no calls. In its
place stands what the golden run's server told as its result, under the same name: `golden_db_hash` is
the golden run's `result_db_hash`. A `diff` is made anew from the two states; it also shows fields that
the server would leave out of its hash.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from grader.evidence import Change
from grader.rows import plain

TABLE = "server_effects"
"""Rows {"server": name, "effects": object}, as env-servers tell them."""
MAX_DIFFERENCES = 200
_RESULT, _GOLDEN, _STATE = "result_", "golden_", "_state"

Effects = dict[str, Any]


def told(initial: Iterable[str], changes: Iterable[Change]) -> Effects:
    """Server → effects after the changes; `initial` are the table's rows before them."""
    found = {row["server"]: row["effects"] for row in map(plain, initial)}
    for change in changes:
        if change.table == TABLE:
            row = plain(change.after or change.before)
            found[row["server"]] = row["effects"] if change.after else None
    return found


def completed(seen: Effects, golden: Effects, kept: Mapping[str, Mapping[str, Any]]) -> Effects:
    """The effects of an attempt with the golden run's, and with what was kept from the servers."""
    whole: Effects = {}
    for server, effects in seen.items():
        if not isinstance(effects, dict):
            whole[server] = effects
            continue
        right = golden.get(server)
        golden_part = _golden_part(effects, right) if isinstance(right, dict) else {}
        whole[server] = {**effects, **golden_part, **kept.get(server, {})}
    return whole


def _golden_part(effects: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    differences: list[dict[str, Any]] = []
    for key, value in effects.items():
        name = key.removeprefix(_RESULT)
        if name == key or key not in right or _GOLDEN + name not in effects:
            continue
        found[_GOLDEN + name] = right[key]
        if key.endswith(_STATE):
            _compare(value, right[key], "", differences)
    if found and "diff" in effects:
        found["diff"] = differences
    return found


def _compare(result: Any, golden: Any, path: str, found: list[dict[str, Any]]) -> None:
    if len(found) >= MAX_DIFFERENCES or result == golden:
        return
    if isinstance(result, dict) and isinstance(golden, dict):
        for key in sorted(result.keys() | golden.keys()):
            where = f"{path}.{key}" if path else key
            _compare_at(
                result.get(key), golden.get(key), where, found, key in result, key in golden
            )
    elif isinstance(result, list) and isinstance(golden, list):
        for place in range(max(len(result), len(golden))):
            here, there = place < len(result), place < len(golden)
            _compare_at(
                result[place] if here else None,
                golden[place] if there else None,
                f"{path}[{place}]",
                found,
                here,
                there,
            )
    else:
        found.append({"path": path, "type": "other value", "result": result, "golden": golden})


def _compare_at(
    result: Any, golden: Any, path: str, found: list[dict[str, Any]], here: bool, there: bool
) -> None:
    if here and there:
        _compare(result, golden, path, found)
    elif len(found) < MAX_DIFFERENCES:
        kind = "only in the result" if here else "only in golden"
        found.append({"path": path, "type": kind, "result": result, "golden": golden})
