"""Undo an episode inside its own database, and prove that nothing of it is left.

The proof covers: touched tables by image sum, row counters of all tables against the journal,
catalogs and their grants, sequences, the agent's role with its settings; every hundredth time and
after any unusual episode all tables and all catalogs. A `Doubt` means that the slot must go.
"""

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection, sql

from env_server import baseline, journal
from env_server.journal_evidence import Counts, Doubt, summarize
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
    before: Sequence[Counts],
    *,
    role: str,
    expected_role: tuple[Any, ...],
    full: bool,
) -> tuple[Counts, ...]:
    """Bring a silent database back to the template's state; returns its counters from now on.

    `conn` is a superuser's; `before` are the counters of the hand-out. Doubt when the database
    cannot be shown to be as it was.
    """
    summary = await summarize(conn, template)
    summary.require_complete(before)
    touched = summary.touched(before)
    base = template.baseline
    statements: list[sql.Composable] = [journal.undo_statements(template.tables, touched)]
    sequences = await baseline.read_sequences(conn, base.sequence_names)
    for name, now, then in zip(base.sequence_names, sequences, base.sequences, strict=True):
        if now != then:
            value, called = then
            statements.append(
                sql.SQL("SELECT setval({}::regclass, {}, {})").format(
                    sql.Literal(name), sql.Literal(value), sql.Literal(called)
                )
            )
    begin, end = sql.SQL("BEGIN"), [sql.SQL(FLUSH), sql.SQL("COMMIT")]
    await conn.execute(sql.SQL(";\n").join([begin, *statements, *end]), prepare=False)
    await _require_untouched(conn, template, touched, role, expected_role, full=full)
    after = await summarize(conn, template)
    if after.is_dirty or any(map(any, after.journalled)):
        raise Doubt("the journal is not empty after the undo")
    return after.counted


async def _require_untouched(
    conn: AsyncConnection[Any],
    template: Template,
    touched: Sequence[int],
    role: str,
    expected_role: tuple[Any, ...],
    *,
    full: bool,
) -> None:
    base = template.baseline
    numbers = range(len(template.tables)) if full else touched
    images = await baseline.read_images(conn, template.tables, numbers)
    for number, image in zip(numbers, images, strict=True):
        if image != base.images[number]:
            raise Doubt(f"table {template.tables[number].name} is not as it was")
    if await baseline.read_sequences(conn, base.sequence_names) != base.sequences:
        raise Doubt("a sequence is not as it was")
    if await baseline.read_catalogs(conn, full=full) != (base.catalogs if full else base.watched):
        raise Doubt("a catalog is not as it was")
    if await baseline.read_role(conn, role) != expected_role:
        raise Doubt(f"role {role} or the access to its database is not as it was")
