"""What a clone of a template holds before any episode: the measure of every reset.

Tables by count and sum, sequences by value, catalogs by the transactions that wrote them
(any DDL, grant or comment writes a new version of some catalog row), roles by their own rows.
Reading all of it is for every hundredth reset; the others look at what can have been touched.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql

from env_server.evidence import Table, made_sql
from env_server.journal import EXACT_SUM, QUICK_SUM

_CATALOGS = (
    *("pg_aggregate", "pg_attrdef", "pg_attribute", "pg_cast", "pg_class", "pg_collation"),
    *("pg_constraint", "pg_conversion", "pg_default_acl", "pg_description", "pg_enum"),
    *("pg_event_trigger", "pg_extension", "pg_foreign_data_wrapper", "pg_foreign_server"),
    *("pg_foreign_table", "pg_index", "pg_inherits", "pg_init_privs", "pg_language"),
    *("pg_largeobject", "pg_largeobject_metadata", "pg_namespace", "pg_opclass", "pg_operator"),
    *("pg_opfamily", "pg_policy", "pg_proc", "pg_publication", "pg_range", "pg_rewrite"),
    *("pg_seclabel", "pg_sequence", "pg_statistic", "pg_statistic_ext", "pg_transform"),
    *("pg_trigger", "pg_ts_config", "pg_ts_dict", "pg_type", "pg_user_mapping"),
)


@dataclass(frozen=True, slots=True)
class Baseline:
    """All values as texts or numbers that compare equal when the state is the same."""

    quick: tuple[tuple[int, str], ...]
    """Per table: rows and quick sum."""
    exact: tuple[tuple[int, str], ...]
    sequences: tuple[tuple[int, bool], ...]
    sequence_names: tuple[str, ...]
    """Quoted, in the order of `sequences`."""
    catalogs: tuple[str, ...]


async def read(conn: AsyncConnection[Any], tables: Sequence[Table]) -> Baseline:
    """Of the database that `conn` is in."""
    found = await conn.execute(
        "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relkind = 'S'"
        " AND c.relnamespace = 'public'::regnamespace ORDER BY 1"
    )
    names = tuple(row[0] for row in await found.fetchall())
    return Baseline(
        quick=await read_sums(conn, tables, range(len(tables)), QUICK_SUM),
        exact=await read_sums(conn, tables, range(len(tables)), EXACT_SUM),
        sequences=await read_sequences(conn, sequences_query(names) if names else None),
        sequence_names=names,
        catalogs=await read_catalogs(conn),
    )


async def read_sums(
    conn: AsyncConnection[Any], tables: Sequence[Table], numbers: Sequence[int], formula: str
) -> tuple[tuple[int, str], ...]:
    """Count and sum of the rows of each of the tables with these numbers."""
    if not numbers:
        return ()
    rows = await (await conn.execute(sums_query(tables, numbers, formula))).fetchall()
    return tuple((count, total) for _, count, total in sorted(rows))


def sums_query(tables: Sequence[Table], numbers: Sequence[int], formula: str) -> sql.Composed:
    parts = [
        made_sql(f"SELECT {{}}, count(*), {formula.format('t')} FROM public.{{}} t").format(
            sql.Literal(place), sql.Identifier(tables[number].name)
        )
        for place, number in enumerate(numbers)
    ]
    return sql.SQL(" UNION ALL ").join(parts)


def restore_sequences(base: Baseline) -> sql.Composed:
    """A statement that gives each sequence that moved its value back."""
    known = zip(base.sequence_names, base.sequences, strict=True)
    parts = [
        sql.SQL(
            "SELECT {}::regclass AS name, last_value, is_called, {}::bigint AS value, {} AS called"
            " FROM {}"
        ).format(sql.Literal(name), sql.Literal(value), sql.Literal(called), made_sql(name))
        for name, (value, called) in [("journal.units", (1, False)), *known]
    ]
    return sql.SQL(
        "SELECT setval(name, value, called) FROM ({}) s"
        " WHERE (last_value, is_called) IS DISTINCT FROM (value, called)"
    ).format(sql.SQL(" UNION ALL ").join(parts))


def sequences_query(names: Sequence[str]) -> sql.Composed:
    """One row for each of these sequences, with its place among them."""
    parts = [
        sql.SQL("SELECT {}, last_value, is_called FROM {}").format(
            sql.Literal(place), made_sql(name)
        )
        for place, name in enumerate(names)
    ]
    return sql.SQL(" UNION ALL ").join(parts)


async def read_sequences(
    conn: AsyncConnection[Any], query: sql.Composed | bytes | None
) -> tuple[tuple[int, bool], ...]:
    """What `sequences_query` answers, in order; None where there is no sequence."""
    if query is None:
        return ()
    rows = await (await conn.execute(query)).fetchall()
    return tuple((value, called) for _, value, called in sorted(rows))


async def read_catalogs(conn: AsyncConnection[Any]) -> tuple[str, ...]:
    """Per catalog its rows and the sum of the transactions that wrote them."""
    row = await (await conn.execute(_DIGESTS)).fetchone()
    assert row
    return tuple(row)


_DIGESTS = sql.SQL("SELECT ") + sql.SQL(", ").join(
    sql.SQL(
        "(SELECT count(*) || ' ' || coalesce(sum(xmin::text::bigint), 0) FROM pg_catalog.{})"
    ).format(sql.Identifier(name))
    for name in _CATALOGS
)


ROLE = """
SELECT r.rolname, r.rolsuper, r.rolinherit, r.rolcreaterole, r.rolcreatedb, r.rolcanlogin,
       r.rolreplication, r.rolbypassrls, r.rolconnlimit, r.rolpassword, r.rolvaliduntil::text,
       ARRAY(SELECT m.roleid::regrole::text FROM pg_auth_members m WHERE m.member = r.oid
             ORDER BY 1)::text,
       (SELECT count(*) FROM pg_db_role_setting s WHERE s.setrole = r.oid
           OR s.setrole IN (SELECT oid FROM pg_roles WHERE rolname IN ('world_agent', 'grader_ro'))
           OR s.setdatabase = d.oid),
       d.datacl::text, d.datconnlimit, d.datallowconn, d.datdba::regrole::text
FROM pg_authid r, pg_database d WHERE r.rolname = %s AND d.datname = current_database()
"""
"""One row: everything that an agent's role could change of itself or of its database's access."""


async def read_role(conn: AsyncConnection[Any], role: str) -> tuple[Any, ...]:
    """Everything that an agent's role could change of itself or of its database's access."""
    row = await (await conn.execute(ROLE, (role,))).fetchone()
    return tuple(row) if row else ()
