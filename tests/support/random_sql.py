"""Random SQL programs over the kinds world: what agents do, and what they rarely do.

A program is a list of (session, statement); sessions are 0 and 1. Many statements fail on purpose:
a failure inside a transaction spoils it until the next ROLLBACK, as in life.
"""

import random
from collections.abc import Callable

Step = tuple[int, str]

_VALUES: dict[str, Callable[[random.Random], str]] = {
    "small": lambda r: str(r.randint(-9, 99)),
    "big": lambda r: str(r.randint(-(2**40), 2**40)),
    "exact": lambda r: r.choice(["1.0", "1.00", "1e30", "0.1234567890123456789", "NULL", "'NaN'"]),
    "money2": lambda r: f"{r.randint(0, 9999)}.{r.randint(0, 99)}",
    "single": lambda r: r.choice(["0.1", "-0.0", "'Infinity'", "1e-30", "0.3333333"]),
    "double": lambda r: r.choice(["5.0/7", "-0.0", "'NaN'", "1e300", "0.1+0.2"]),
    "words": lambda r: r.choice(["'ä'", "''", "NULL", "repeat('long ', 3000)", "'a''b'", "E'\\t'"]),
    "short": lambda r: r.choice(["'x'", "repeat('y', 41)", "''"]),
    "fixed": lambda r: r.choice(["'a'", "'a    '", "NULL"]),
    "raw": lambda r: r.choice([r"'\x00ff'", "''", "decode(repeat('ab', 4000), 'hex')"]),
    "flag": lambda r: r.choice(["true", "false", "NULL"]),
    "day": lambda r: r.choice(["'infinity'", "'2026-02-29'", "'2028-02-29'", "'0001-01-01 BC'"]),
    "clock": lambda r: r.choice(["'24:00'", "'10:11:12.123456'"]),
    "zoned": lambda r: r.choice(["'10:00+02'", "'08:00Z'"]),
    "local_at": lambda r: r.choice(["'-infinity'", "'2026-03-29 02:30'"]),
    "at": lambda r: r.choice(["'2026-03-29 02:30+02'", "world.now()", "'infinity'"]),
    "span": lambda r: r.choice(["'1 day'", "'24 hours'", "'1 mon -1 day'", "NULL"]),
    "code": lambda r: f"md5('{r.randint(0, 9)}')::uuid",
    "doc": lambda r: r.choice(["""'{"a": 1.0}'""", """'{"a": 1.00}'""", "'null'", "'[]'", "NULL"]),
    "numbers": lambda r: r.choice(["'{}'", "'{1,NULL,3}'", "ARRAY[[1,2],[3,4]]"]),
    "names": lambda r: r.choice(["ARRAY['','NULL']", "NULL", """'{"a,b","c\\"d"}'"""]),
    "host": lambda r: r.choice(["'::1'", "'10.0.0.1/8'"]),
    "net": lambda r: r.choice(["'10.0.0.0/8'", "'10.0.0.1/8'"]),
    "mac": lambda r: "'08:00:2b:01:02:04'",
    "window_": lambda r: r.choice(["'empty'", "'[1,5)'", "'(,)'"]),
    "period": lambda r: r.choice(["'empty'", "'[2026-01-01Z,)'"]),
    "feeling": lambda r: r.choice(["'glad'", "'sad'", "NULL"]),
    "points": lambda r: str(r.choice([0, 7, 1000, 1001])),
    "twin": lambda r: r.choice(["ROW(1, 'x')::pair", "ROW(NULL, NULL)::pair", "NULL"]),
}


def program(draw: random.Random, length: int = 24) -> list[Step]:
    """At least `length` statements, then every session is outside of a transaction."""
    steps: list[Step] = []
    for _ in range(length):
        session = 0 if draw.random() < 0.8 else 1
        steps.append((session, _statement(draw)))
    return steps


def _statement(draw: random.Random) -> str:
    kinds = [_things, _things, _things, _control, _control, _family, _seats, _stock, _others]
    return draw.choice(kinds)(draw)


def _control(draw: random.Random) -> str:
    return draw.choice(
        ["BEGIN", "BEGIN", "COMMIT", "COMMIT", "ROLLBACK", "SAVEPOINT a", "ROLLBACK TO a",
         "RELEASE a", "SET CONSTRAINTS ALL DEFERRED", "SET CONSTRAINTS ALL IMMEDIATE"]
    )  # fmt: skip


def _things(draw: random.Random) -> str:
    columns = draw.sample(sorted(_VALUES), draw.randint(1, 5))
    values = [_VALUES[column](draw) for column in columns]
    row = draw.randint(1, 34)
    match draw.randint(0, 5):
        case 0:
            return f"INSERT INTO things ({', '.join(columns)}) VALUES ({', '.join(values)})"
        case 1:
            return f"DELETE FROM things WHERE id = {row}"
        case 2:
            return f"UPDATE things SET id = {draw.randint(1, 60)} WHERE id = {row}"
        case 3:
            return f"UPDATE things SET words = words WHERE id % {draw.randint(2, 5)} = 0"
        case _:
            pairs = ", ".join(f"{c} = {v}" for c, v in zip(columns, values, strict=True))
            return f"UPDATE things SET {pairs} WHERE id = {row}"


def _family(draw: random.Random) -> str:
    one, other = draw.randint(1, 15), draw.randint(1, 30)
    return draw.choice(
        [
            f"DELETE FROM parents WHERE id = {one}",
            f"UPDATE parents SET id = {other} WHERE id = {one}",
            f"INSERT INTO parents VALUES ({other}, 'new {other}')",
            f"INSERT INTO children VALUES ({one}, {other}, 'x')",
            f"UPDATE children SET n = n + 1 WHERE parent_id = {one}",
            f"UPDATE children SET parent_id = {other} WHERE parent_id = {one}",
        ]
    )


def _seats(draw: random.Random) -> str:
    one, other = draw.sample(range(1, 13), 2)
    return draw.choice(
        [
            f"UPDATE seats SET place = CASE id WHEN {one} THEN (SELECT place FROM seats WHERE id ="
            f" {other}) ELSE (SELECT place FROM seats WHERE id = {one}) END"
            f" WHERE id IN ({one}, {other})",
            f"UPDATE seats SET id = CASE id WHEN {one} THEN {other} ELSE {one} END"
            f" WHERE id IN ({one}, {other})",
            "UPDATE seats SET id = id + 1",
            f"UPDATE seats SET place = {other} WHERE id = {one}",
            f"INSERT INTO seats VALUES ({other + 12}, {other + 12}, {one + 20})",
            f"DELETE FROM seats WHERE id = {one}",
        ]
    )


def _stock(draw: random.Random) -> str:
    sku, amount = f"'sku-{draw.randint(1, 16)}'", draw.randint(-5, 40)
    return draw.choice(
        [
            f"INSERT INTO stock VALUES ({sku}, {amount}) ON CONFLICT (sku)"
            " DO UPDATE SET amount = stock.amount + excluded.amount",
            f"INSERT INTO stock VALUES ({sku}, {amount}) ON CONFLICT DO NOTHING",
            f"MERGE INTO stock s USING (VALUES ({sku}, {amount}), ('sku-1', 1)) v(sku, n)"
            " ON s.sku = v.sku WHEN MATCHED AND v.n > 20 THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET amount = v.n"
            " WHEN NOT MATCHED THEN INSERT VALUES (v.sku, v.n)",
            f"UPDATE stock SET amount = amount - {amount}",
            f"WITH gone AS (DELETE FROM stock WHERE sku = {sku} RETURNING *)"
            " INSERT INTO stock SELECT sku || 'x', amount FROM gone",
        ]
    )


def _others(draw: random.Random) -> str:
    n, area = draw.randint(1, 15), draw.randint(-2, 40)
    return draw.choice(
        [
            f"INSERT INTO serials (word) VALUES ('w{n}')",
            f"DELETE FROM serials WHERE id < {n}",
            f"SELECT nextval('serials_id_seq'), {n}",
            f"UPDATE readings SET area = {area} WHERE id = {n}",
            f"INSERT INTO readings VALUES ({area}, {n + 100}, 0.50)",
            f"DELETE FROM readings WHERE area = {area}",
            f"UPDATE accounts SET balance = balance + 1.2345 WHERE id = {n}",
            f"INSERT INTO accounts VALUES ({n + 8}, {n})",
            f"DELETE FROM accounts WHERE id = {n}",
            f"INSERT INTO audit (account, what) VALUES ({n}, 'by hand') RETURNING id",
            "INSERT INTO audit (account, what) SELECT n, 'many' FROM generate_series(1, 80) n",
        ]
    )
