"""The row journal: every inserted, updated and deleted row, typed, where an agent cannot reach it.

Table number n of a template (in the order of `Template.tables`) has a journal table `journal.r<n>`
with the row before and after as values of the table's own row type, so that no session setting can
change what is kept. The triggers sort before every trigger of the world, are enabled always, and
run as a role that can do nothing but insert there. What changed on the whole is a difference of
multisets: rows that were there before and after cancel out, whatever the order of the changes.
"""

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection, sql

from env_server.evidence import Table, made_sql

ROLE = "world_journal"
TRIGGER = "!journal"
"""Sorts before every name that a world may give a trigger."""
GROWTH_TRIGGER = "!growth"
UNIT_BYTES = 8192
"""A changed row counts one unit for each of these that it holds or begins."""

_SCHEMA = """
CREATE SCHEMA journal;
REVOKE ALL ON SCHEMA journal FROM PUBLIC;
CREATE TABLE journal.dirty (reason text NOT NULL);
CREATE SEQUENCE journal.units;
CREATE FUNCTION journal.grow() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, journal, pg_temp AS $$
DECLARE
    left_over int := pg_column_size(NEW);
BEGIN
    LOOP
        IF nextval('journal.units') > {cap} THEN
            RAISE EXCEPTION 'this attempt has changed more rows than it may'
                USING ERRCODE = 'configuration_limit_exceeded';
        END IF;
        left_over := left_over - {unit};
        EXIT WHEN left_over <= 0;
    END LOOP;
    RETURN NEW;
END $$;
CREATE FUNCTION journal.truncated() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, journal, pg_temp AS $$
BEGIN
    INSERT INTO journal.dirty VALUES (format('%I was truncated', TG_TABLE_NAME));
    RETURN NULL;
END $$;
"""

_TABLE = """
CREATE TABLE journal.{journal} (op "char" NOT NULL, old public.{table}, new public.{table})
    WITH (autovacuum_enabled = false);
CREATE FUNCTION journal.{journal}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, journal, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO journal.{journal} VALUES ('i', NULL, {new});
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO journal.{journal} VALUES ('u', {old}, {new});
    ELSE
        INSERT INTO journal.{journal} VALUES ('d', {old}, NULL);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER {trigger} AFTER INSERT OR UPDATE OR DELETE ON public.{table}
    FOR EACH ROW EXECUTE FUNCTION journal.{journal}();
ALTER TABLE public.{table} ENABLE ALWAYS TRIGGER {trigger};
CREATE TRIGGER {growth} BEFORE INSERT OR UPDATE ON public.{table}
    FOR EACH ROW EXECUTE FUNCTION journal.grow();
ALTER TABLE public.{table} ENABLE ALWAYS TRIGGER {growth};
"""

_TRUNCATE = """
CREATE TRIGGER {trigger} BEFORE TRUNCATE ON {table} FOR EACH STATEMENT
    EXECUTE FUNCTION journal.truncated();
ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger};
"""

_UNDO = """
CREATE FUNCTION journal.{name}() RETURNS void LANGUAGE plpgsql AS $$
DECLARE one journal.{j};
BEGIN
    -- One change is most of what tools do, and the general way costs twice as much.
    IF (SELECT count(*) FROM journal.{j}) = 1 THEN
        SELECT * INTO one FROM journal.{j};
        IF one.op <> 'd' THEN
            DELETE FROM public.{t} x WHERE {is_new};
        END IF;
        IF one.op <> 'i' THEN
            INSERT INTO public.{t} ({columns}) OVERRIDING SYSTEM VALUE VALUES ({old_values});
        END IF;
        DELETE FROM journal.{j};
        RETURN;
    END IF;
    WITH images AS (
        SELECT old::text AS image, 1 AS side, old AS the_row FROM journal.{j} WHERE op <> 'i'
        UNION ALL SELECT new::text, -1, new FROM journal.{j} WHERE op <> 'd'
    ), net AS MATERIALIZED (
        SELECT sum(side) AS side, (array_agg(the_row))[1] AS the_row FROM images
        GROUP BY image HAVING sum(side) <> 0
    ), gone AS (
        DELETE FROM public.{t} x USING net WHERE net.side < 0 AND {same} RETURNING 1
    ), all_gone AS (SELECT count(*) FROM gone)
    -- The count makes the insert wait until every replaced row is out of the way.
    INSERT INTO public.{t} ({columns}) OVERRIDING SYSTEM VALUE
    SELECT {values} FROM all_gone, net WHERE net.side > 0;
    -- The triggers have journalled the undo itself, which goes with the rest.
    DELETE FROM journal.{j};
END $$;
"""

_GRANTS = """
GRANT USAGE ON SCHEMA public, journal TO {role};
GRANT INSERT ON ALL TABLES IN SCHEMA journal TO {role};
GRANT USAGE ON SEQUENCE journal.units TO {role};
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA journal FROM PUBLIC;
"""

_OWN = """
SELECT format('ALTER FUNCTION %s OWNER TO {role}', p.oid::regprocedure)
FROM pg_proc p WHERE p.pronamespace = 'journal'::regnamespace AND p.prosecdef
"""


async def install(conn: AsyncConnection[Any], tables: Sequence[Table], cap: int) -> None:
    """Put the journal into a template; an episode may change `cap` units of rows."""
    role = sql.Identifier(ROLE)
    await conn.execute(sql.SQL(_SCHEMA).format(cap=sql.Literal(cap), unit=sql.Literal(UNIT_BYTES)))
    for number, table in enumerate(tables):
        await conn.execute(
            sql.SQL(_TABLE).format(
                journal=sql.Identifier(f"r{number}"),
                table=sql.Identifier(table.name),
                trigger=sql.Identifier(TRIGGER),
                growth=sql.Identifier(GROWTH_TRIGGER),
                old=_as_root(table, "OLD"),
                new=_as_root(table, "NEW"),
            )
        )
        await conn.execute(_undo_function(number, table))
        for physical in table.physical:
            await conn.execute(
                sql.SQL(_TRUNCATE).format(
                    trigger=sql.Identifier(TRIGGER + "_truncate"), table=made_sql(physical)
                )
            )
    await conn.execute(sql.SQL(_GRANTS).format(role=role))
    # A definer needs CREATE on its schema for the moment in which it becomes the owner.
    await conn.execute(sql.SQL("GRANT CREATE ON SCHEMA journal TO {}").format(role))
    for (statement,) in await (await conn.execute(sql.SQL(_OWN).format(role=role))).fetchall():
        await conn.execute(statement)
    await conn.execute(sql.SQL("REVOKE CREATE ON SCHEMA journal FROM {}").format(role))


def _as_root(table: Table, record: str) -> sql.Composable:
    """The trigger's row as the table's row type; a partition may hold its columns in another order."""
    if not table.is_partitioned:
        return made_sql(record)
    columns = sql.SQL(", ").join(
        made_sql(record + ".{}").format(sql.Identifier(column)) for column in table.columns
    )
    return sql.SQL("ROW({})::public.{}").format(columns, sql.Identifier(table.name))


def summary_query(tables: Sequence[Table]) -> sql.Composed:
    """Per table: number; journalled inserts, updates, deletes; counted inserts, updates, deletes.

    Number -1 counts the dirty marks, -2 the changes in the catalogs.
    """
    parts: list[sql.Composable] = [
        sql.SQL(
            "SELECT {n}, count(*) FILTER (WHERE op = 'i'), count(*) FILTER (WHERE op = 'u'),"
            " count(*) FILTER (WHERE op = 'd'), {inserted}, {updated}, {deleted} FROM journal.{j}"
        ).format(
            n=sql.Literal(number),
            j=sql.Identifier(f"r{number}"),
            inserted=_counter("inserted", table.leaves),
            updated=_counter("updated", table.leaves),
            deleted=_counter("deleted", table.leaves),
        )
        for number, table in enumerate(tables)
    ]
    parts.append(sql.SQL("SELECT -1, count(*), 0, 0, 0, 0, 0 FROM journal.dirty"))
    parts.append(
        sql.SQL(
            "SELECT -2, sum(pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid)"
            " + pg_stat_get_tuples_deleted(oid))::bigint, 0, 0, 0, 0, 0 FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = 11 AND NOT relisshared"
        )
    )
    return sql.SQL(" UNION ALL ").join(parts)


def _counter(name: str, oids: Sequence[int]) -> sql.Composable:
    return sql.SQL(" + ").join(
        made_sql("pg_stat_get_tuples_" + name + "({})").format(sql.Literal(oid)) for oid in oids
    )


QUICK_SUM = "coalesce(sum(hash_record_extended({}, 0)), 0)::text"
"""Of rows in any order. It takes equal values of another form, such as 1.0 and 1.00, for one."""
EXACT_SUM = "coalesce(sum(hashtextextended({}::text, 0)), 0)::text"
"""The same by the text of each row, which is exact and costs twice as much."""


def details_query(
    tables: Sequence[Table], touched: Sequence[int], ranked: set[int]
) -> sql.Composed:
    """What happened in the touched tables, as rows (number, what, text, text):

    `change`: the row before and after as jsonb text, null where there is none; `sum`: count and
    quick sum of the table now; `delta`: what the journal adds to the quick sum; and for `ranked`
    tables `rank`: the key of a row that is new under its key, and how many rows stand before it.
    """
    parts: list[sql.Composable] = []
    for number in touched:
        names = {
            "n": sql.Literal(number),
            "j": sql.Identifier(f"r{number}"),
            "t": sql.Identifier(tables[number].name),
        }
        texts = [
            "SELECT {n}, 'change', to_jsonb(old)::text, to_jsonb(new)::text FROM journal.{j}",
            f"SELECT {{n}}, 'sum', count(*)::text, {QUICK_SUM.format('t')} FROM public.{{t}} t",
            "SELECT {n}, 'delta', NULL, (coalesce(sum(CASE WHEN op <> 'd' THEN"
            " hash_record_extended(new, 0)::numeric ELSE 0 END - CASE WHEN op <> 'i' THEN"
            " hash_record_extended(old, 0)::numeric ELSE 0 END), 0))::text FROM journal.{j}",
        ]
        parts += [made_sql(text).format(**names) for text in texts]
        if number in ranked:
            parts.append(_rank_query(number, tables[number]))
    return sql.SQL(" UNION ALL ").join(parts)


def _rank_query(number: int, table: Table) -> sql.Composed:
    def row(prefix: str) -> sql.Composed:
        return sql.SQL("ROW({})").format(
            sql.SQL(", ").join(table.ordered(column, prefix) for column in table.key_columns)
        )

    same = sql.SQL(" AND ").join(
        sql.SQL("x.{c} = (j.new).{c}").format(c=sql.Identifier(column))
        for column in table.key_columns
    )
    moved = sql.SQL("({})").format(
        sql.SQL(" OR ").join(
            sql.SQL("(j.old).{c}::text IS DISTINCT FROM (j.new).{c}::text").format(
                c=sql.Identifier(column)
            )
            for column in table.key_columns
        )
    )
    key = sql.SQL(", ").join(
        sql.SQL("{}, x.{}").format(sql.Literal(column), sql.Identifier(column))
        for column in table.key_columns
    )
    return sql.SQL(
        "SELECT {n}, 'rank', jsonb_build_object({key})::text,"
        " (SELECT count(*) FROM public.{t} t WHERE {mine} < {its})::text"
        " FROM journal.{j} j JOIN public.{t} x ON {same} WHERE j.op = 'i' OR j.op = 'u' AND {moved}"
    ).format(
        n=sql.Literal(number),
        key=key,
        t=sql.Identifier(table.name),
        mine=row("t"),
        its=row("x"),
        j=sql.Identifier(f"r{number}"),
        same=same,
        moved=moved,
    )


def undo_statements(touched: Sequence[int]) -> sql.Composed:
    """Bring the touched tables back and empty their journals; for one transaction of a superuser.

    No trigger of the world and no foreign key acts.
    """
    calls = sql.SQL(", ").join(
        sql.SQL("journal.{}()").format(sql.Identifier(f"undo{number}")) for number in touched
    )
    return sql.SQL("SET LOCAL session_replication_role = replica; SELECT {}").format(calls)


def _undo_function(number: int, table: Table) -> sql.Composed:
    return sql.SQL(_UNDO).format(
        name=sql.Identifier(f"undo{number}"),
        j=sql.Identifier(f"r{number}"),
        t=sql.Identifier(table.name),
        same=sql.SQL(" AND ").join(
            sql.SQL("x.{c} = (net.the_row).{c}").format(c=sql.Identifier(column))
            for column in table.key_columns
        ),
        is_new=sql.SQL(" AND ").join(
            sql.SQL("x.{c} = (one.new).{c}").format(c=sql.Identifier(column))
            for column in table.key_columns
        ),
        old_values=sql.SQL(", ").join(
            sql.SQL("(one.old).{}").format(sql.Identifier(column)) for column in table.stored
        ),
        columns=sql.SQL(", ").join(map(sql.Identifier, table.stored)),
        values=sql.SQL(", ").join(
            sql.SQL("(net.the_row).{}").format(sql.Identifier(column)) for column in table.stored
        ),
    )
