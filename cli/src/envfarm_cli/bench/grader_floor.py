"""The floor of grading: psycopg alone reads what has to be read and compares it with what is right.

`python -m envfarm_cli.bench.grader_floor DSN ROUNDS < rows.json`. On standard input the right final rows
of every table. By reference: the three rows that a right end changes, on one open connection. By
DSN: a new connection, and every row of every table. By JSON: the same rows parsed from text.
"""

import json
import statistics
import sys
import time

import psycopg

TOUCHED = {"orders": "id = 17", "products": "id = 30", "order_lines": "order_id = 17"}


def timed(into: list[float], work) -> None:
    begin = time.perf_counter()
    work()
    into.append((time.perf_counter() - begin) * 1000)


def main(dsn: str, rounds: int, text: str) -> dict[str, float]:
    right = {table: sorted(map(canonical, rows)) for table, rows in json.loads(text).items()}
    by_reference, by_dsn, by_json = [], [], []
    with psycopg.connect(dsn, autocommit=True) as conn:
        few = {table: read(conn, table, where) for table, where in TOUCHED.items()}
        for _ in range(rounds):
            timed(by_reference, lambda: [read(conn, t, w) == few[t] for t, w in TOUCHED.items()])
    for _ in range(max(5, rounds // 10)):
        timed(by_dsn, lambda: whole(dsn, right))
        timed(by_json, lambda: json.loads(text))
    return {
        "floor_p50_ms": statistics.median(by_reference),
        "floor_dsn_p50_ms": statistics.median(by_dsn),
        "floor_json_p50_ms": statistics.median(by_json),
    }


def canonical(row: dict) -> str:
    return json.dumps(row, sort_keys=True)


def read(conn: psycopg.Connection, table: str, where: str) -> list:
    query = f"SELECT * FROM {table} WHERE {where} ORDER BY 1, 2"
    return conn.execute(query).fetchall()  # pyright: ignore[reportArgumentType, reportCallIssue]


def whole(dsn: str, right: dict[str, list[str]]) -> None:
    with psycopg.connect(dsn) as conn:
        seen = [conn.execute(f"SELECT t::text FROM {t} t ORDER BY 1").fetchall() for t in right]  # pyright: ignore
    assert [len(rows) for rows in seen] == [len(rows) for rows in right.values()]


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.stdin.read())))
