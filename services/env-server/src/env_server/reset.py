"""Undo an episode inside its own database, and prove that nothing of it is left.

The proof covers: touched tables by image sum, row counters of all tables against the journal,
catalogs and their grants, sequences, the agent's role with its settings; every hundredth time and
after any unusual episode all tables and all catalogs. A `Doubt` means that the slot must go.
"""

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection, sql

from env_server import baseline, journal
from env_server.journal_evidence import Doubt, Summary, summarize
from env_server.template import Template

FULL_EVERY = 100

FORGET = (
    "ROLLBACK; CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; DEALLOCATE ALL;"
    " UNLISTEN *; SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES;"
    " SELECT pg_catalog.pg_stat_force_next_flush()"
)
"""Everything that a session can keep for the next episode; DISCARD ALL would drop good plans too."""
FLUSH = "SELECT pg_catalog.pg_stat_force_next_flush()"


async def undo(
    conn: AsyncConnection[Any],
    template: Template,
    before: Summary,
    summary: Summary,
    *,
    role: str,
    expected_role: tuple[Any, ...],
    full: bool,
) -> Summary:
    """Bring a silent database back to the template's state; returns its summary from now on.

    `conn` is a superuser's; `before` is the summary of the hand-out and `summary` that of now.
    Doubt when the database cannot be shown to be as it was.
    """
    summary.require_complete(before)
    touched = summary.touched(before)
    base = template.baseline
    undoing = template.query(("undo", *touched), lambda: _undo_query(template, touched))
    await conn.execute(undoing, prepare=False)
    names = base.sequence_names
    reading = (
        template.query("sequences", lambda: baseline.sequences_query(names)) if names else None
    )
    sums = template.query(
        ("sums", *touched), lambda: baseline.sums_query(template.tables, touched, journal.QUICK_SUM)
    )
    async with conn.pipeline():
        seen_sums = await conn.execute(sums) if touched else None
        seen_role = await conn.execute(baseline.ROLE, (role,))
        sequences = await baseline.read_sequences(conn, reading)
        after = await summarize(conn, template)
    now = (
        {place: (count, total) for place, count, total in await seen_sums.fetchall()}
        if seen_sums
        else {}
    )
    for place, number in enumerate(touched):
        if now[place] != base.quick[number]:
            raise Doubt(f"table {template.tables[number].name} is not as it was")
    if sequences != base.sequences:
        raise Doubt("a sequence is not as it was")
    if await seen_role.fetchone() != expected_role:
        raise Doubt(f"role {role} or the access to its database is not as it was")
    _require_quiet(template, summary, after, touched)
    if full:
        await _require_all(conn, template)
    return after


def _undo_query(template: Template, touched: Sequence[int]) -> sql.Composed:
    statements = [sql.SQL("BEGIN"), baseline.restore_sequences(template.baseline)]
    if touched:
        statements.append(journal.undo_statements(touched))
    return sql.SQL(";\n").join([*statements, sql.SQL(FLUSH), sql.SQL("COMMIT")])


async def _require_all(conn: AsyncConnection[Any], template: Template) -> None:
    """Every table by the text of its rows, and every catalog."""
    tables, base = template.tables, template.baseline
    exact = await baseline.read_sums(conn, tables, range(len(tables)), journal.EXACT_SUM)
    if exact != base.exact:
        raise Doubt("a table is not as it was")
    if await baseline.read_catalogs(conn) != base.catalogs:
        raise Doubt("a catalog is not as it was")


def _require_quiet(
    template: Template, summary: Summary, after: Summary, touched: Sequence[int]
) -> None:
    """Nothing may have happened between the summary and the undo but the undo itself."""
    if any(map(any, after.journalled)):
        raise Doubt("the journal is not empty after the undo")
    if after.is_dirty or after.catalog_changes != summary.catalog_changes:
        raise Doubt("a table was truncated or a catalog changed during the undo")
    for number, counted in enumerate(after.counted):
        if number not in touched and counted != summary.counted[number]:
            raise Doubt(f"table {template.tables[number].name} changed during the undo")
