"""A second grader: dump everything, sort, compare. It shares no code with the grader.

It reads the YAML file of the checks, whole tables before and after, and says whether the reward is 1.
Rows are compared one with another, by trying every pairing; nothing here is fast.
"""

import json
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

Row = dict[str, Any]
Tables = dict[str, list[Row]]
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def rewarded(
    spec: dict[str, Any],
    primary_keys: dict[str, list[str]],
    initial: Tables,
    golden: Tables,
    final: Tables,
    reply: str,
    query: Callable[[str], list[Row]],
    judge_says: Callable[[str], str],
) -> bool:
    """Whether every check of the task holds."""
    verdicts = []
    for check in spec["checks"]:
        kind = check["kind"]
        if kind == "state":
            verdicts.append(StateComparison(check, primary_keys, initial, golden, final).holds())
        elif kind == "untouched":
            verdicts.append(untouched(check, primary_keys, initial, final))
        elif kind == "sql":
            verdicts.append(sql(check, query(check["query"])))
        elif kind == "reply":
            verdicts.append(says(check, reply))
        elif kind == "rubric":
            asked = len(reply) <= check.get("max_characters", 8000)
            verdicts.append(asked and judge_says(reply) == check.get("expect", "yes"))
        elif kind == "python":
            verdicts.append(python(check, primary_keys, initial, final, reply, query))
        else:
            raise AssertionError(f"the slow grader does not know {kind}")
    return all(verdicts)


class StateComparison:
    """Two whole databases, the golden one and the observed one, under a check's declarations."""

    def __init__(self, check, primary_keys, initial, golden, final):
        self.check, self.keys, self.initial = check, primary_keys, initial
        self.golden, self.final = golden, final

    def option(self, name: str) -> Any:
        return self.check.get(name, {} if name in ("keys", "refs", "tolerance", "windows") else [])

    def holds(self) -> bool:
        tables = [t for t in self.initial if t not in self.option("allow_tables")]
        return all(self.old_rows_hold(table) and self.new_rows_hold(table) for table in tables)

    def old_rows_hold(self, table: str) -> bool:
        golden, final = self.by_key(table, self.golden), self.by_key(table, self.final)
        for key, row in self.by_key(table, self.initial).items():
            if (key in golden) != (key in final):
                return False
            if key not in golden:
                continue
            right = self.normal(table, golden[key], self.golden)
            seen = self.normal(table, final[key], self.final)
            right_changed = right != self.normal(table, row, self.golden)
            seen_changed = seen != self.normal(table, row, self.final)
            if right_changed != seen_changed:
                return False
            if right_changed and not self.alike(table, right, seen):
                return False
        return True

    def new_rows_hold(self, table: str) -> bool:
        old = self.by_key(table, self.initial)
        right = [
            self.without_generated(table, self.normal(table, row, self.golden))
            for key, row in self.by_key(table, self.golden).items()
            if key not in old
        ]
        seen = [
            (row, self.without_generated(table, self.normal(table, row, self.final)))
            for key, row in self.by_key(table, self.final).items()
            if key not in old
        ]
        return self.paired(table, right, seen)

    def paired(self, table: str, right: list[Row], seen: list[tuple[Row, Row]]) -> bool:
        if not right:
            return self.allowed(table, [raw for raw, _ in seen])
        first, *rest = right
        return any(
            self.alike(table, first, row) and self.paired(table, rest, seen[:i] + seen[i + 1 :])
            for i, (_, row) in enumerate(seen)
        )

    def allowed(self, table: str, extra: list[Row]) -> bool:
        rules = [rule for rule in self.option("allow_rows") if rule["table"] == table]
        return self.fit(extra, [(rule, rule["at_most"]) for rule in rules])

    def fit(self, extra: list[Row], room: list[tuple[dict, int]]) -> bool:
        if not extra:
            return True
        row, *rest = extra
        for i, (rule, left) in enumerate(room):
            where = rule.get("where", {})
            if left and all(show(row[c]) == show(number(v)) for c, v in where.items()):
                if self.fit(rest, [*room[:i], (rule, left - 1), *room[i + 1 :]]):
                    return True
        return False

    def by_key(self, table: str, state: Tables) -> dict[str, Row]:
        return {show([row[column] for column in self.keys[table]]): row for row in state[table]}

    def normal(self, table: str, row: Row, state: Tables) -> dict[str, str]:
        result = {}
        for column, value in row.items():
            name = f"{table}.{column}"
            if name in self.option("ignore"):
                continue
            if name in self.option("json_text") and isinstance(value, str):
                value = as_json(value)
            if name in self.option("refs"):
                value = self.followed(self.option("refs")[name], value, state)
            for path in self.option("unordered"):
                if path == name or path.startswith(name + "."):
                    value = in_order(value, path.split(".")[2:])
            result[column] = value if column in self.loose(table) else show(value)
        return result

    def followed(self, target: str, value: Any, state: Tables) -> Any:
        """A new row of `target` as its natural key."""
        (key,) = self.keys[target]
        old = {show(row[key]) for row in self.initial[target]}
        for row in state[target]:
            if show(row[key]) == show(value) and show(value) not in old:
                natural = {}
                for column in self.option("keys")[target]:
                    onward = self.option("refs").get(f"{target}.{column}")
                    natural[column] = (
                        self.followed(onward, row[column], state) if onward else row[column]
                    )
                return {"new row of": target, "known by": natural}
        return value

    def loose(self, table: str) -> set[str]:
        names = [*self.option("tolerance"), *self.option("windows")]
        return {name.split(".")[1] for name in names if name.split(".")[0] == table}

    def without_generated(self, table: str, row: Row) -> Row:
        natural = self.option("keys").get(table)
        if natural is None:
            return row
        return {c: v for c, v in row.items() if c not in self.keys[table] or c in natural}

    def alike(self, table: str, right: Row, seen: Row) -> bool:
        for column in right:
            name = f"{table}.{column}"
            if name in self.option("unstable"):
                continue
            if name in self.option("tolerance"):
                if not near(right[column], seen[column], str(self.option("tolerance")[name])):
                    return False
            elif name in self.option("windows"):
                if not within(right[column], seen[column], self.option("windows")[name]):
                    return False
            elif right[column] != seen[column]:
                return False
        return set(right) == set(seen)


def near(a: Any, b: Any, most: str) -> bool:
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        return abs(a - b) <= Decimal(most)
    return show(a) == show(b)


def within(a: Any, b: Any, span: str) -> bool:
    if a is None or b is None:
        return a is b
    first, second = (
        t if t.tzinfo else t.replace(tzinfo=UTC) for t in map(datetime.fromisoformat, (a, b))
    )
    return abs((first - second).total_seconds()) <= int(span[:-1]) * SECONDS[span[-1]]


def untouched(check, primary_keys, initial: Tables, final: Tables) -> bool:
    def picked(state: Tables, table: str) -> list[str]:
        rows = [
            row
            for row in state[table]
            if all(show(row[c]) == show(number(v)) for c, v in check.get("where", {}).items())
        ]
        return sorted(map(show, rows))

    return all(picked(initial, table) == picked(final, table) for table in check["tables"])


def sql(check, rows: list[Row]) -> bool:
    if check["expect"] is True:
        return len(rows) == 1 and list(rows[0].values()) == [True]

    def alike(right: Row, seen: Row) -> bool:
        slack = check.get("tolerance", {})
        return set(right) == set(seen) and all(
            near(number(v), seen[c], str(slack[c]))
            if c in slack
            else show(number(v)) == show(seen[c])
            for c, v in right.items()
        )

    def paired(right: list[Row], seen: list[Row]) -> bool:
        if not right:
            return not seen
        places = range(len(seen)) if check.get("any_order") else range(min(1, len(seen)))
        return any(
            alike(right[0], seen[i]) and paired(right[1:], seen[:i] + seen[i + 1 :]) for i in places
        )

    return paired(check["expect"], rows)


def says(check, reply: str) -> bool:
    text = folded(reply).casefold()

    def has(part: str) -> bool:
        part = folded(part).casefold()
        start = text.find(part)
        while start >= 0:
            end = start + len(part)
            if not (part[0].isdigit() and glued(text[:start][::-1])):
                if not (part[-1].isdigit() and glued(text[end:])):
                    return True
            start = text.find(part, start + 1)
        return False

    assert "matches" not in check, "the slow grader has no patterns"
    return all(map(has, check.get("contains_all", []))) and not any(
        map(has, check.get("contains_none", []))
    )


def glued(rest: str) -> bool:
    """Whether a number goes on in `rest`, read away from it."""
    return rest[:1] in tuple("0123456789") or (
        rest[:1] in (".", ",") and rest[1:2] in tuple("0123456789")
    )


def folded(text: str) -> str:
    result = ""
    for character in unicodedata.normalize("NFKC", text):
        kind = unicodedata.category(character)
        if kind == "Pd" or character == "\u2212":
            result += "-"
        elif character in "\u2018\u2019\u201a\u201b\u2032":
            result += "'"
        elif character in "\u201c\u201d\u201e\u201f\u2033":
            result += '"'
        elif kind != "Cf":
            result += character
    return " ".join(result.split())


def python(check, primary_keys, initial: Tables, final: Tables, reply: str, query) -> bool:
    changes = []
    for table, keys in primary_keys.items():
        before = {show([r[k] for k in keys]): r for r in initial[table]}
        after = {show([r[k] for k in keys]): r for r in final[table]}
        for key in sorted(before.keys() | after.keys()):
            old, new = before.get(key), after.get(key)
            if old is None or new is None or show(old) != show(new):
                op = "insert" if old is None else "delete" if new is None else "update"
                row = new or old or {}
                changes.append(
                    {
                        "table": table,
                        "op": op,
                        "key": {k: plain(row[k]) for k in keys},
                        "before": plain(old),
                        "after": plain(new),
                    }
                )
    names: dict[str, Any] = {}
    exec(check["code"], names)
    rows = {name: [plain(row) for row in query(text)] for name, text in check["rows"].items()}
    return names["check"](changes, reply, rows) is True


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=lambda d: int(d) if d == int(d) else float(d)))


def number(value: Any) -> Any:
    """YAML's numbers as exact ones."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return Decimal(str(value)) if is_number else value


def as_json(text: str) -> Any:
    def refuse(word: str) -> Any:
        raise ValueError(word)

    try:
        return json.loads(text, parse_float=Decimal, parse_int=Decimal, parse_constant=refuse)
    except ValueError:
        return text


def in_order(value: Any, path: list[str]) -> Any:
    if isinstance(value, list):
        return [in_order(item, path) for item in value] if path else sorted(value, key=show)
    if isinstance(value, dict) and path and path[0] in value:
        return {k: in_order(v, path[1:]) if k == path[0] else v for k, v in value.items()}
    return value


def show(value: Any) -> str:
    """A text that is equal exactly for equal values."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{k!r}:{show(v)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(show, value)) + "]"
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, int | float | Decimal):
        return f"number {Decimal(str(value)).normalize() + 0:f}"
    return f"text {value!r}"
