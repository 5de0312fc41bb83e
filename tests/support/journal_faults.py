"""Faults planted into the journal's machinery, as (name, SQL of a superuser, SQL of the agent).

Each breaks one promise that evidence or undo leans on; a fault that nothing notices would let a
wrong verdict or a dirty slot through. `{r}` is the journal table of `stock`, `{t}` that table.
"""

FAULTS: list[tuple[str, str, str]] = [
    (
        "dropped trigger",
        'DROP TRIGGER "!journal" ON {t}',
        "UPDATE stock SET amount = 1 WHERE sku = 'sku-1'",
    ),
    (
        "disabled trigger",
        'ALTER TABLE {t} DISABLE TRIGGER "!journal"',
        "DELETE FROM stock WHERE sku = 'sku-2'",
    ),
    (
        "skipped operation",
        "CREATE OR REPLACE FUNCTION journal.{r}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF TG_OP = 'INSERT' THEN INSERT INTO journal.{r} VALUES ('i', NULL, NEW); END IF;"
        " RETURN NULL; END $$; GRANT INSERT ON journal.{r} TO PUBLIC; GRANT USAGE ON SCHEMA journal"
        " TO PUBLIC",
        "DELETE FROM stock WHERE sku = 'sku-3'; INSERT INTO stock VALUES ('n', 1)",
    ),
    (
        "lost column",
        "CREATE OR REPLACE FUNCTION journal.{r}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " NEW.amount := 0; INSERT INTO journal.{r} VALUES ('u', OLD, NEW); RETURN NULL; END $$;"
        " GRANT INSERT ON journal.{r} TO PUBLIC; GRANT USAGE ON SCHEMA journal TO PUBLIC",
        "UPDATE stock SET amount = 77 WHERE sku = 'sku-4'",
    ),
    (
        "old row for new",
        "CREATE OR REPLACE FUNCTION journal.{r}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO journal.{r} VALUES ('u', OLD, OLD); RETURN NULL; END $$;"
        " GRANT INSERT ON journal.{r} TO PUBLIC; GRANT USAGE ON SCHEMA journal TO PUBLIC",
        "UPDATE stock SET amount = 77 WHERE sku = 'sku-4'",
    ),
    (
        "entry removed",
        "INSERT INTO stock VALUES ('m', 1); DELETE FROM journal.{r}",
        "UPDATE stock SET amount = 5 WHERE sku = 'sku-5'",
    ),
    (
        "entry twice",
        "INSERT INTO journal.{r} SELECT 'i', NULL, s FROM stock s WHERE sku = 'sku-6'",
        "UPDATE stock SET amount = 6 WHERE sku = 'sku-6'",
    ),
    (
        "entry of what never was",
        "INSERT INTO journal.{r} VALUES ('d', ROW('ghost', 1)::stock, NULL)",
        "SELECT 1",
    ),
    ("table truncated", "TRUNCATE {t}", "SELECT 1"),
    ("truncated by the world's own code", "SELECT 1", "SELECT empty_stock()"),
    ("grant", "GRANT SELECT ON {t} TO PUBLIC", "SELECT 1"),
    (
        "undo that restores nothing",
        "CREATE OR REPLACE FUNCTION journal.{undo}() RETURNS void LANGUAGE sql AS"
        " 'DELETE FROM journal.{r}'",
        "UPDATE stock SET amount = 9 WHERE sku = 'sku-9'",
    ),
    (
        "undo that forgets the journal",
        "DO $$ BEGIN EXECUTE replace(pg_get_functiondef('journal.{undo}()'::regprocedure),"
        " 'DELETE FROM journal', 'DELETE FROM journal.dirty; SELECT FROM journal'); END $$",
        "UPDATE stock SET amount = 9 WHERE sku = 'sku-9'",
    ),
    ("role setting", "ALTER ROLE {role} SET search_path = journal", "SELECT 1"),
    ("role password", "ALTER ROLE {role} PASSWORD 'other'", "SELECT 1"),
    ("access to the database", "REVOKE CONNECT ON DATABASE {role} FROM grader_ro", "SELECT 1"),
]
