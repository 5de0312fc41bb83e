"""Other records of the same world: what a confused agent would take for the right one."""

from collections.abc import Iterator, Mapping
from typing import Any

from grader.rows import Row, canonical_text, parse_row
from grader.world_base import WorldBase

MOST = 3
"""Neighbours that are tried for one record."""
_LOOKED_AT = 2_000
"""Rows that are compared with the right one."""
_FEW = 8
"""In a table below this size a column may be without repetition by chance."""


class Neighbours:
    """Finds records by the values that name them: primary keys, and columns without repetition."""

    def __init__(self, base: WorldBase):
        self._rows: dict[str, list[Row]] = {}
        self._named: dict[str, tuple[str, str]] = {}
        self._keys: dict[str, list[tuple[str, str]]] = {}
        for name, table in base.tables.items():
            self._rows[name] = [parse_row(text) for text in table.rows]
            if len(table.key_columns) == 1:
                self._keys.setdefault(table.key_columns[0], []).append((name, table.key_columns[0]))
            for column in sorted(table.columns, key=lambda c: c not in table.key_columns):
                self._name(name, column, is_key=table.key_columns == [column])

    def of(self, argument: str, value: Any) -> list[Any]:
        """Up to three values that name other records of the table in which `value` names one, the
        most similar first; empty when it names none."""
        place = self._place(argument, value)
        if place is None:
            return []
        table, column = place
        rows = self._rows[table]
        text = canonical_text(value)
        at = next(i for i, row in enumerate(rows) if canonical_text(row[column]) == text)
        start = max(0, at - _LOOKED_AT // 2)
        others = [row for row in rows[start : start + _LOOKED_AT] if row is not rows[at]]
        others.sort(key=lambda row: -_alike(row, rows[at]))
        found = [row[column] for row in others[:MOST]]
        return [int(other) if isinstance(value, int) else other for other in found]

    def _name(self, table: str, column: str, *, is_key: bool) -> None:
        values = [row[column] for row in self._rows[table]]
        if not is_key and len(values) < _FEW:
            return
        if not all(isinstance(value, str) for value in values) or len(set(values)) != len(values):
            return
        for value in values:
            if is_key:
                self._named[value] = (table, column)
            else:
                self._named.setdefault(value, (table, column))

    def _place(self, argument: str, value: Any) -> tuple[str, str] | None:
        if isinstance(value, str):
            return self._named.get(value)
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        # A number names a record only where the argument is called after the key.
        return next(
            (
                (table, column)
                for table, column in self._candidates(argument)
                if any(canonical_text(row[column]) == str(value) for row in self._rows[table])
            ),
            None,
        )

    def _candidates(self, argument: str) -> Iterator[tuple[str, str]]:
        yield from self._keys.get(argument, ())
        stem = argument.removesuffix("_id")
        if stem != argument:
            for table, column in self._keys.get("id", ()):
                if table in (stem, f"{stem}s", f"{stem}es", f"{stem.removesuffix('y')}ies"):
                    yield table, column


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    return sum(value == other.get(column) for column, value in one.items())
