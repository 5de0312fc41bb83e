"""A world's database built from its files on a given Postgres, with row changes applied: what a
foreign system would hand to the grader by DSN."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import psycopg
import yaml
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

READER = "outside_reader"
PASSWORD = "reader-password"


def make_reader(server: str) -> None:
    """A role that may read what `make_database` makes."""
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                sql.Identifier(READER), sql.Literal(PASSWORD)
            )
        )


def make_database(server: str, name: str, world: Path, diff: Iterable[Mapping[str, str]]) -> str:
    """Build database `name`; the superuser's DSN of it. `diff` is that of a verdict."""
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(
            sql.SQL(
                "CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER libc"
                " LC_COLLATE 'C' LC_CTYPE 'C'"
            ).format(sql.Identifier(name))
        )
    dsn = make_conninfo(server, dbname=name, options="-c timezone=UTC")
    now = yaml.safe_load((world / "world.yaml").read_text())["now"]
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("CREATE SCHEMA world")
        conn.execute(
            sql.SQL(
                "CREATE FUNCTION world.now() RETURNS timestamptz IMMUTABLE RETURN {}::timestamptz"
            ).format(sql.Literal(now))
        )
        conn.execute((world / "schema.sql").read_bytes())
        conn.execute((world / "seed.sql").read_bytes())
        conn.execute("RESET ALL")
        conn.execute("SET session_replication_role = replica")
        for change in diff:
            _apply(conn, change)
        conn.execute(
            sql.SQL(
                "GRANT USAGE ON SCHEMA public, world TO {0};"
                " GRANT SELECT ON ALL TABLES IN SCHEMA public TO {0}"
            ).format(sql.Identifier(READER))
        )
    return dsn


def reader_dsn(server: str, name: str) -> str:
    """What a caller may send: no password, nothing but the place."""
    host = conninfo_to_dict(server)["host"]
    return make_conninfo("", host=host, dbname=name, user=READER)


def targets_file(server: str, folder: Path) -> Path:
    """A file for GRADER_DSN_TARGETS_FILE that allows `shop_*` databases of this server."""
    host = conninfo_to_dict(server)["host"]
    password = folder / "reader.password"
    password.write_text(PASSWORD + "\n")
    file = folder / "targets.yaml"
    target = {
        "host": host,
        "databases": ["shop_*"],
        "user": READER,
        "password_file": str(password),
    }
    file.write_text(yaml.safe_dump({"targets": [target]}))
    return file


def _apply(conn: psycopg.Connection, change: Mapping[str, str]) -> None:
    table = sql.Identifier(change["table"])
    key = json.loads(change["key_json"])
    where = sql.SQL(" AND ").join(
        sql.SQL("{} = {}").format(sql.Identifier(column), sql.Literal(value))
        for column, value in key.items()
    )
    conn.execute(sql.SQL("DELETE FROM public.{} WHERE {}").format(table, where))
    if change["after_json"]:
        conn.execute(
            sql.SQL(
                "INSERT INTO public.{0} SELECT * FROM jsonb_populate_record(NULL::public.{0}, {1})"
            ).format(table, sql.SQL("{}::jsonb").format(change["after_json"]))
        )
