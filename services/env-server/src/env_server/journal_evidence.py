"""Evidence from the row journal: only what an episode touched is looked at.

The journal is believed when three witnesses agree: Postgres's own row counters saw no change that
it does not have, each touched table holds exactly the template's rows plus the journalled
difference (by count and sum), and each row that it says was replaced is the template's. Any
disagreement is a `Doubt`; whoever gets it reads all tables in full.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from envfarm.canonical import canonical_row, content_hash
from psycopg import AsyncConnection

from env_server import evidence, journal
from env_server.evidence import Change, Digest, Evidence, TableRows, key_of
from env_server.template import Template

MAX_PATCHED = 64
"""A table with more journalled rows is read in full, which is then cheaper."""

Counts = tuple[int, int, int]
"""Inserts, updates, deletes."""


class Doubt(Exception):
    """The journal does not explain what the database holds."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What journal and counters say about every table, in the order of the template's."""

    journalled: tuple[Counts, ...]
    counted: tuple[Counts, ...]
    """Since the database was made; subtract the counts of the hand-out."""
    is_dirty: bool
    catalog_changes: int
    """Counted like the others."""

    def touched(self, before: "Summary") -> list[int]:
        """Numbers of the tables with a journal entry or a counted change."""
        return [
            number
            for number, entries in enumerate(self.journalled)
            if any(entries) or self.counted[number] != before.counted[number]
        ]

    def require_complete(self, before: "Summary") -> None:
        """Doubt when fewer changes were counted than journalled, or anything but rows changed.

        More were counted when some were rolled back; such a table is touched and so looked at.
        """
        if self.is_dirty:
            raise Doubt("a table was truncated")
        if self.catalog_changes != before.catalog_changes:
            raise Doubt("a catalog was changed")
        for number, entries in enumerate(self.journalled):
            # A row that moves between partitions is journalled and counted as delete and insert.
            pairs = zip(self.counted[number], before.counted[number], strict=True)
            counted = [now - then for now, then in pairs]
            if any(have > seen for have, seen in zip(entries, counted, strict=True)):
                raise Doubt(f"table {number}: {entries} journalled, {counted} counted")


async def summarize(conn: AsyncConnection[Any], template: Template) -> Summary:
    """Read journal and counters; the agent's backend must have flushed its counts before."""
    journalled: dict[int, Counts] = {}
    counted: dict[int, Counts] = {}
    is_dirty, catalog_changes = False, 0
    query = template.query("summary", lambda: journal.summary_query(template.tables))
    for number, *values in await (await conn.execute(query)).fetchall():
        if number < 0:
            is_dirty = values[0] > 0 if number == -1 else is_dirty
            catalog_changes = values[0] if number == -2 else catalog_changes
            continue
        journalled[number] = (values[0], values[1], values[2])
        counted[number] = (values[3], values[4], values[5])
    numbers = range(len(template.tables))
    return Summary(
        tuple(journalled[number] for number in numbers),
        tuple(counted[number] for number in numbers),
        is_dirty,
        catalog_changes,
    )


@dataclass(slots=True)
class _Details:
    """One touched table as Postgres told it."""

    old: Counter[str] = field(default_factory=Counter)
    new: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    image: int = 0
    delta: int = 0
    ranks: dict[str, int] = field(default_factory=dict)
    """Rows that stand before a key."""


async def collect(
    conn: AsyncConnection[Any], template: Template, before: Summary, summary: Summary
) -> Evidence:
    """The evidence of a database whose agent is silent; Doubt when the witnesses disagree.

    `before` is the summary of the hand-out, `summary` that of now.
    """
    summary.require_complete(before)
    touched = summary.touched(before)
    details = await _details(conn, template, summary, touched)
    hashes = {name: rows.hash for name, rows in template.initial.tables.items()}
    counts = {name: len(rows.raw) for name, rows in template.initial.tables.items()}
    changes: list[Change] = []
    for number in touched:
        table, found = template.tables[number], details[number]
        base = template.initial.tables[table.name]
        _require_sum(template, number, found)
        if sum(summary.journalled[number]) > MAX_PATCHED:
            after = await evidence.read_rows(conn, table, base)
            net = evidence.changes_of(base, after)
            _require_same(net, _net(base, found), table.name)
        else:
            net = _net(base, found)
            after = _patched(base, net, found.ranks)
        if len(after.canonical) != found.rows:
            raise Doubt(f"{table.name}: {found.rows} rows, {len(after.canonical)} explained")
        hashes[table.name], counts[table.name] = after.hash, found.rows
        changes += net
    initial = template.initial.state_hash
    return Evidence(
        initial,
        content_hash(hashes) if changes else initial,
        tuple(Digest(table, counts[table.name], hashes[table.name]) for table in template.tables),
        tuple(changes),
        from_journal=True,
    )


async def _details(
    conn: AsyncConnection[Any], template: Template, summary: Summary, touched: Sequence[int]
) -> dict[int, _Details]:
    found: defaultdict[int, _Details] = defaultdict(_Details)
    if not touched:
        return found
    ranked = {n for n in touched if 0 < sum(summary.journalled[n]) <= MAX_PATCHED}
    query = template.query(
        ("details", *touched, -1, *ranked),
        lambda: journal.details_query(template.tables, touched, ranked),
    )
    for number, what, first, second in await (await conn.execute(query)).fetchall():
        table = found[number]
        if what == "change":
            table.old.update([first] if first else [])
            table.new.update([second] if second else [])
        elif what == "sum":
            table.rows, table.image = int(first), int(second)
        elif what == "delta":
            table.delta = int(second)
        else:
            table.ranks[canonical_row(first)] = int(second)
    return found


def _require_sum(template: Template, number: int, found: _Details) -> None:
    rows, image = template.baseline.quick[number]
    rows += found.new.total() - found.old.total()
    if (found.rows, found.image) != (rows, int(image) + found.delta):
        raise Doubt(f"{template.tables[number].name} is not the template's plus its journal")


def _net(base: TableRows, found: _Details) -> list[Change]:
    """What changed on the whole, by key: rows that came and went, or went and came, cancel out."""
    gone, come = found.old - found.new, found.new - found.old
    if any(count > 1 for count in (gone + come).values()):
        raise Doubt(f"{base.table.name}: the journal has one row twice")
    old = {key_of(base.table, row): row for row in map(canonical_row, gone)}
    new = {key_of(base.table, row): row for row in map(canonical_row, come)}
    if len(old) != len(gone) or len(new) != len(come):
        raise Doubt(f"{base.table.name}: the journal has one key twice")
    for key, row in old.items():
        place = base.by_key.get(key)
        if place is None or base.canonical[place] != row:
            raise Doubt(f"{base.table.name} {key}: the journal replaced what never was")
    return [
        Change(base.table.name, key, old.get(key), new.get(key))
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def _patched(base: TableRows, net: Sequence[Change], ranks: dict[str, int]) -> TableRows:
    """The rows after the changes, in primary-key order."""
    if not net:
        return base
    rows: list[str | None] = list(base.canonical)
    inserts: list[tuple[int, str]] = []
    for change in net:
        if change.before is not None:
            rows[base.by_key[change.key_json]] = change.after
        elif change.after is not None:
            if change.key_json not in ranks:
                raise Doubt(f"{change.table} {change.key_json}: inserted, yet it is not there")
            inserts.append((ranks[change.key_json], change.after))
    final = [row for row in rows if row is not None]
    # Ranks count rows of the final state, so the lower ones must be in place first.
    for rank, row in sorted(inserts):
        final.insert(rank, row)
    return TableRows(base.table, tuple(final), tuple(final), evidence.hash_of(final))


def _require_same(read: Sequence[Change], told: Sequence[Change], name: str) -> None:
    if list(read) != list(told):
        raise Doubt(f"{name}: the rows changed otherwise than the journal says")
