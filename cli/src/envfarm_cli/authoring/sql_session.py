"""SQL on the database of one episode, as its owner or as its agent, and what has changed in it."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from envfarm_cli.failure import Failure

MAX_ROWS = 200
_SLOTS = r"SELECT datname FROM pg_database WHERE datname LIKE 'ef\_%\_s\_%' ORDER BY oid DESC"
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       coalesce(pg_get_expr(d.adbin, d.adrelid), '')
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = to_regclass('public.' || quote_ident(%s)) AND a.attnum > 0
  AND NOT a.attisdropped
ORDER BY a.attnum
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """Of one statement."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    status: str
    """As psql says it: SELECT 3, UPDATE 1."""
    left_out: int = 0
    """Rows beyond MAX_ROWS."""


class SqlSession:
    """A superuser's session in the database of the newest episode of a Postgres; `close` ends it."""

    def __init__(self, conninfo: str):
        with psycopg.connect(conninfo, autocommit=True) as admin:
            row = admin.execute(_SLOTS).fetchone()
        if row is None:
            raise Failure("the episode has no database")
        self.role: str = row[0]
        """The agent's role; its database has the same name."""
        self.conninfo = make_conninfo(conninfo, dbname=self.role)
        self._conn = psycopg.connect(self.conninfo, autocommit=True)
        self._conn.execute("SET lock_timeout = '5s'")
        self._before = self._read()

    def run(self, statement: str) -> Answer:
        """psycopg.Error when Postgres refuses."""
        cursor = self._conn.execute(statement.encode())
        if cursor.description is None:
            return Answer((), [], cursor.statusmessage or "")
        rows = cursor.fetchmany(MAX_ROWS)
        names = tuple(column.name for column in cursor.description)
        left_out = max(0, cursor.rowcount - len(rows))
        return Answer(names, rows, cursor.statusmessage or "", left_out)

    def become(self, *, agent: bool) -> None:
        """Take the agent's rights, or all of them again."""
        self._conn.execute("RESET ROLE")
        if agent:
            self._conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(self.role)))

    def tables(self) -> list[tuple[str, int]]:
        """Name and number of rows."""
        return [(name, sum(rows.values())) for name, rows in self._read().items()]

    def columns(self, table: str) -> list[tuple[str, str, bool, str]]:
        """Name, type, NOT NULL, default; empty when there is no such table."""
        with psycopg.connect(self.conninfo, autocommit=True) as admin:
            return admin.execute(_COLUMNS, (table,)).fetchall()

    def changes(self) -> list[tuple[str, str, str]]:
        """Table, - or +, row: what is gone and what is new since the episode was opened."""
        found = []
        now = self._read()
        for table, before in self._before.items():
            after = now.get(table, Counter())
            found += [(table, "-", row) for row in (before - after).elements()]
            found += [(table, "+", row) for row in (after - before).elements()]
        return found

    def close(self) -> None:
        self._conn.close()

    def _read(self) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        with psycopg.connect(self.conninfo, autocommit=True) as admin:
            for (name,) in admin.execute(_TABLES).fetchall():
                query = sql.SQL("SELECT row_to_json(t)::text FROM public.{} t")
                rows = admin.execute(query.format(sql.Identifier(name))).fetchall()
                found[name] = Counter(row[0] for row in rows)
        return found
