"""A two-table world by hand: evidence and golden snapshots for the unit tests.

accounts(id, name, balance) and notes(id, account, text); ids of notes are generated.
"""

from envfarm.canonical import bytes_hash, canonical_json, content_hash

from grader.evidence import Change, Evidence, Op, Table
from grader.golden import Golden, make_golden

Rows = dict[str, list[dict]]

START: Rows = {
    "accounts": [{"id": 1, "name": "Ada", "balance": 10}, {"id": 2, "name": "Bo", "balance": 20}],
    "notes": [{"id": 7, "account": 1, "text": "old"}],
}
COLUMNS = {"accounts": ("id", "name", "balance"), "notes": ("id", "account", "text")}
TASK_HASH = "a" * 64


def after(**tables: list[dict]) -> Rows:
    return {**START, **tables}


def evidence(final: Rows, initial: Rows = START) -> Evidence:
    changes = [change for name in sorted(final) for change in _changes(name, initial, final)]
    return Evidence(
        episode_id="ep-1",
        task_id="shop/t",
        task_hash=TASK_HASH,
        world_hash="b" * 64,
        initial_state_hash=_state(initial),
        final_state_hash=_state(final),
        tables={
            name: Table(
                name=name,
                rows=len(rows),
                hash=_hash(rows),
                key_columns=("id",),
                columns=COLUMNS[name],
            )
            for name, rows in final.items()
        },
        changes=changes,
    )


def golden(final: Rows) -> Golden:
    return make_golden("c" * 64, evidence(START), evidence(final))


def _changes(name: str, initial: Rows, final: Rows) -> list[Change]:
    old = {row["id"]: canonical_json(row) for row in initial[name]}
    new = {row["id"]: canonical_json(row) for row in final[name]}
    found = []
    for key in sorted(old.keys() | new.keys()):
        before, now = old.get(key, ""), new.get(key, "")
        if before != now:
            op: Op = "insert" if not before else "update" if now else "delete"
            text = canonical_json({"id": key})
            found.append(Change(table=name, op=op, key=text, before=before, after=now))
    return found


def _hash(rows: list[dict]) -> str:
    ordered = sorted(rows, key=lambda row: row["id"])
    return bytes_hash("\n".join(map(canonical_json, ordered)).encode())


def _state(tables: Rows) -> str:
    return content_hash({name: _hash(rows) for name, rows in tables.items()})
