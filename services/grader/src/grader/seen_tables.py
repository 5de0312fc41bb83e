"""What is known of tables that were read before, so that an unchanged one costs a hash.

Only bytes that were once compared row by row are remembered. Who sends or reads the same bytes again
has the same rows, whichever request that was.
"""

from collections import OrderedDict
from collections.abc import Sequence

from envfarm.canonical import canonical_row

from grader.world_base import WorldBase

REMEMBERED = 4096
WORLDS = 8


class SeenTables:
    """Hashes of whole tables that hold just the initial rows, and the canonical form of single rows
    as Postgres wrote them."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._rows: OrderedDict[str, dict[str, dict[str, str]]] = OrderedDict()

    def is_unchanged(self, base: WorldBase, table: str, digest: str) -> bool:
        """Whether bytes of this digest are known to hold the table's initial rows."""
        key = (base.initial_state_hash, table, digest)
        if key not in self._known:
            return False
        self._known.move_to_end(key)
        return True

    def remember(self, base: WorldBase, table: str, digest: str) -> None:
        """They do: they were compared."""
        self._known[base.initial_state_hash, table, digest] = None
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def canonical(self, base: WorldBase, table: str, written: Sequence[str]) -> list[str]:
        """Rows that Postgres wrote, as canonical JSON."""
        tables = self._rows.setdefault(base.initial_state_hash, {})
        self._rows.move_to_end(base.initial_state_hash)
        while len(self._rows) > WORLDS:
            self._rows.popitem(last=False)
        known = tables.setdefault(table, {})
        rows = [known.get(row) or canonical_row(row) for row in written]
        if len(known) < 2 * len(base.tables[table].rows):
            known.update(zip(written, rows, strict=True))
        return rows
