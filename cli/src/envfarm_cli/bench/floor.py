"""The floor: the same statements with psycopg on one open connection, and nothing else at all.

`python -m envfarm_cli.bench.floor DSN EPISODES < calls.json`. An episode is a transaction that is
rolled back; its verdict is the comparison of the rows that it should have changed.
"""

import json
import os
import statistics
import sys
import time

import psycopg

LOOK = (
    "SELECT (SELECT status FROM orders WHERE id = 17), (SELECT stock FROM products WHERE id = 30),"
    " (SELECT count(*) FROM order_lines WHERE order_id = 17)"
)


def timed(into: list[float], work):
    begin, result = time.perf_counter(), work()
    into.append((time.perf_counter() - begin) * 1000)
    return result


def main(dsn: str, episodes: int, calls: list) -> dict:
    opens, called, graded, colds, wholes = [], [], [], [], []
    for _ in range(20):
        timed(colds, lambda: psycopg.connect(dsn)).close()
    with psycopg.connect(dsn, autocommit=True) as conn:
        for number in range(episodes):
            begin = time.perf_counter()
            timed(opens, lambda: conn.execute("BEGIN"))
            for query, arguments in calls if number % 2 == 0 else calls[:-1]:
                timed(called, lambda: conn.execute(query, arguments).fetchall())  # noqa: B023
            seen = timed(graded, lambda: conn.execute(LOOK).fetchone())
            assert (seen == ("packed", 128, 3)) == (number % 2 == 0), seen
            conn.execute("ROLLBACK")
            wholes.append(time.perf_counter() - begin)
        with open(f"/proc/{conn.info.backend_pid}/smaps_rollup") as lines:
            kib = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    ten = max(1, episodes // 10)
    return {
        "open_p50_ms": statistics.median(opens),
        "open_p99_ms": statistics.quantiles(opens, n=100)[98],
        "cold_open_p50_ms": statistics.median(colds),
        "call_p50_ms": statistics.median(called),
        "seal_grade_p50_ms": statistics.median(graded),
        "episodes_per_second": episodes / sum(wholes),
        "cpu_ms_per_episode": sum(os.times()[:2]) * 1000 / episodes,
        "rss_per_episode_mb": kib / 1024,
        "opens": episodes,
        "drift_ratio": statistics.median(opens[-ten:]) / statistics.median(opens[:ten]),
        "leaked": 0,
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), json.load(sys.stdin))))
