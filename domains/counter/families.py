"""Write the tasks and the seed rows of the counter from its families.

A family is one way in which a request must end, with the range of records that lead there. Each of
its tasks has a job of its own, so held-out tasks are about other records than training ones.
`python domains/counter/families.py` writes world/seed.sql, world/tasks, user and private beside it;
`--check` fails when what is committed differs, and a copy may have more training tasks: the
held-out ones stay as they are. What people say is in words.yaml.
"""

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent
SEED = 20261130
TODAY = date(2026, 5, 4)
TRAIN_TASKS, EVAL_TASKS = 6, 4
"""Of each family."""
MOST_TRAIN_TASKS = 50
"""Each task needs a job of its own, and there are 900 ids."""
WORDINGS = 8
"""Openings of each request in words.yaml."""
JOB_LETTERS = "DEFGHJKLMN"
FILLERS = 60
"""Jobs of no task: neighbours."""
NEXT_APPROVAL = "A10"
"""The id that an episode's first approval gets: the seed has none."""
LIMITS = {
    "max_turns": 6,
    "max_tool_calls": 6,
    "max_turn_tokens": 64,
    "max_total_tokens": 1024,
    "max_tool_seconds": 10,
}

PARTS = ("world/tasks", "user", "private")
Action = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One job, who asks for it, and the part it needs."""

    job: str
    owner: str
    caller: str
    state: str
    paid: bool
    price: int
    days: int
    other: str
    part: str
    stock: int
    wording: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """`right` names the plan that the policy asks for; `misses` those that must not pass."""

    slug: str
    request: str
    failure_mode: str
    right: str
    misses: tuple[str, ...]
    states: tuple[str, ...] = ("collected",)
    paid: bool = True
    price: range = range(10, 100, 5)
    """In euros. Prices and days stand on few marks: a small policy must have seen each of them."""
    days: range = range(10, 31, 5)
    stock: tuple[int, int] = (1, 9)
    stranger: bool = False


FAMILIES = (
    Family(slug="refund-small", request="refund", failure_mode="asks_needlessly", right="refund",
           misses=("approved refund", "refuse late", "approval only"), price=range(10, 51, 5)),
    Family(slug="refund-approval", request="refund", failure_mode="acts_before_approval",
           right="approved refund", price=range(55, 100, 5),
           misses=("refund", "approval only", "approval not cited", "refuse late")),
    Family(slug="refund-late", request="refund", failure_mode="ignores_a_limit",
           right="refuse late", misses=("refund", "approved refund", "refuse owner"),
           days=range(35, 91, 5)),
    Family(slug="refund-stranger", request="refund", failure_mode="acts_on_a_neighbours_record",
           right="refuse owner", misses=("refund", "approved refund", "refuse late"),
           stranger=True),
    Family(slug="warranty-valid", request="warranty", failure_mode="refuses_needlessly",
           right="reopen", misses=("refuse late", "reopen and refund", "refund"),
           days=range(10, 91, 5)),
    Family(slug="warranty-late", request="warranty", failure_mode="ignores_a_limit",
           right="refuse late", misses=("reopen", "refuse owner"), days=range(91, 100, 2)),
    Family(slug="cancel-early", request="cancel", failure_mode="refuses_needlessly",
           right="cancel", misses=("refuse state", "cancel and refuse"),
           states=("quoted", "open"), paid=False),
    Family(slug="cancel-started", request="cancel", failure_mode="ignores_the_state",
           right="refuse state", misses=("cancel", "cancel and refuse", "refuse late"),
           states=("started", "ready"), paid=False),
    Family(slug="collect-paid", request="collect", failure_mode="refuses_needlessly",
           right="release", misses=("refuse state", "release and refuse"),
           states=("ready",)),
    Family(slug="collect-unpaid", request="collect", failure_mode="stops_half_way",
           right="pay and release", misses=("release", "pay only", "release and pay"),
           states=("ready",), paid=False),
    Family(slug="collect-unready", request="collect", failure_mode="ignores_the_state",
           right="refuse state", misses=("release", "pay and release", "pay and refuse"),
           states=("open", "started"), paid=False),
    Family(slug="collect-stranger", request="collect", failure_mode="acts_on_a_neighbours_record",
           right="refuse owner", misses=("release", "refuse state"),
           states=("ready",), stranger=True),
    Family(slug="part-in-stock", request="part", failure_mode="does_too_much", right="fit",
           misses=("order", "fit and order"), states=("open", "started"), paid=False),
    Family(slug="part-out", request="part", failure_mode="forgets_the_side_table", right="order",
           misses=("order nothing", "order and refuse"), states=("open", "started"),
           paid=False, stock=(0, 0)),
)  # fmt: skip

FILLER = Family(slug="", request="", failure_mode="", right="", misses=(), states=("ready",),
                stock=(0, 9))  # fmt: skip
"""The jobs of no task."""


def call(tool: str, **arguments: Any) -> Action:
    return {"tool": tool, "arguments": arguments}


def actions(plan: str, record: Record) -> list[Action]:
    """The calls of a plan, right or wrong, on this record; KeyError for another plan."""
    job, amount, part = record.job, record.price, record.part
    show = [call("job", job=job)]
    refund = [call("refund", job=job, amount=amount)]
    approve = [call("approve", job=job, amount=amount)]
    cited = [call("refund", job=job, amount=amount, approval=NEXT_APPROVAL)]
    pay, release = [call("pay", job=job, amount=amount)], [call("release", job=job)]
    cancel, reopen = [call("cancel", job=job)], [call("reopen", job=job)]
    look, fit = [call("part", part=part)], [call("fit", job=job, part=part)]
    order = [call("order", job=job, part=part)]
    state = [call("refuse", job=job, reason="state")]
    return show + {
        "refund": refund,
        "approved refund": approve + cited,
        "approval only": approve,
        "approval not cited": approve + refund,
        "refuse late": [call("refuse", job=job, reason="late")],
        "refuse owner": [call("refuse", job=job, reason="owner")],
        "refuse state": state,
        "reopen": reopen,
        "reopen and refund": reopen + refund,
        "cancel": cancel,
        "cancel and refuse": cancel + state,
        "release": release,
        "release and refuse": release + state,
        "pay and release": pay + release,
        "pay only": pay,
        "release and pay": release + pay,
        "pay and refuse": pay + state,
        "fit": look + fit,
        "order": look + order,
        "fit and order": look + fit + order,
        "order nothing": look,
        "order and refuse": look + order + state,
    }[plan]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pool:
    """Whom and what a record may name."""

    names: list[str]
    """Of customers."""
    others: list[str]
    """Jobs that are ready to be collected and belong to no task."""
    parts: dict[str, int]
    """Stock by part."""


def draw(family: Family, rng: random.Random, job: str, pool: Pool, wording: int) -> Record:
    """A record of the family with this job."""
    owner, caller = rng.sample(pool.names, 2)
    lowest, highest = family.stock
    part = rng.choice([p for p, stock in pool.parts.items() if lowest <= stock <= highest])
    return Record(
        job=job,
        owner=owner,
        caller=caller if family.stranger else owner,
        state=rng.choice(family.states),
        paid=family.paid,
        price=rng.choice(family.price),
        days=rng.choice(family.days),
        other=rng.choice(pool.others),
        part=part,
        stock=pool.parts[part],
        wording=wording,
    )


def opening(family: Family, record: Record, wordings: dict[str, list[str]]) -> str:
    """The customer's first words."""
    text = wordings[family.request][record.wording]
    return text.format(caller=record.caller, job=record.job, other=record.other, part=record.part)


@dataclass(frozen=True, slots=True)
class Task:
    """One task of the domain: where it stands, and what it is about."""

    slug: str
    split: str
    family: Family
    record: Record

    @property
    def task_id(self) -> str:
        return f"counter/{self.slug}"


@dataclass(frozen=True, slots=True)
class World:
    tasks: list[Task]
    fillers: list[Record]
    """Jobs of no task."""
    parts: dict[str, int]
    """Stock by part."""


def draw_world(names: list[str], train_tasks: int) -> World:
    """Every record of the domain. More training tasks add records and change no other."""
    rng = random.Random(SEED)
    jobs = [f"{letter}{number}" for letter in JOB_LETTERS for number in range(10, 100)]
    rng.shuffle(jobs)
    parts = {f"P{number}": max(0, rng.randint(-7, 8)) for number in range(10, 50)}
    others = [jobs.pop() for _ in range(FILLERS)]
    pool = Pool(names, others, parts)
    fillers = [draw(FILLER, rng, job, pool, 0) for job in others]
    tasks: list[Task] = []
    for split, count in (("eval", EVAL_TASKS), ("train", train_tasks)):
        for number in range(1, count + 1):
            for family in FAMILIES:
                slug = f"{family.slug}-{split}-{number}"
                wordings = random.Random(f"{SEED} {family.slug} {split}").sample(
                    range(WORDINGS), WORDINGS
                )
                own = random.Random(f"{SEED} {slug}")
                record = draw(family, own, jobs.pop(), pool, wordings[(number - 1) % WORDINGS])
                tasks.append(Task(slug, split, family, record))
    return World(tasks, fillers, parts)


def seed_sql(world: World, words: dict[str, Any]) -> str:
    """Text of world/seed.sql; tables in the order in which foreign keys need them."""
    ids = {name: f"C{10 + i}" for i, name in enumerate(words["names"])}
    kinds = [f"{device} {part}" for part in words["components"] for device in words["devices"]]
    records = [task.record for task in world.tasks] + world.fillers
    records.sort(key=lambda record: record.job)
    rows: dict[str, list[tuple[Any, ...]]] = {
        "customers": [
            (ids[name], name, f"0{171 + i} {4310 + 37 * i}") for i, name in enumerate(ids)
        ],
        "parts": [
            (part, name.capitalize(), 6 + 17 * i % 90, world.parts[part])
            for i, (part, name) in enumerate(zip(world.parts, kinds, strict=True))
        ],
        **{table: [] for table in ("jobs", "payments", "releases", "events")},
    }
    for record in records:
        device = words["devices"][int(record.job[1:]) % len(words["devices"])]
        _add_job(rows, record, ids[record.owner], device)
    statements = [_insert(table, values) for table, values in rows.items()]
    return "-- Written by families.py; the counter on 4 May 2026.\n\n" + "\n".join(statements)


def _add_job(
    rows: dict[str, list[tuple[Any, ...]]], record: Record, customer: str, device: str
) -> None:
    finished = record.state in ("ready", "collected")
    last = TODAY - timedelta(days=record.days)
    quoted = last - timedelta(days=4) if finished else last
    rows["jobs"].append(
        (record.job, customer, device, record.state, record.price, quoted,
         last if finished else None)
    )  # fmt: skip
    kinds = [("quoted", quoted)]
    if record.paid:
        rows["payments"].append((record.job, record.price, f"{last}T15:00:00Z"))
        kinds.append(("paid", last))
    if record.state == "collected":
        rows["releases"].append((record.job, f"{last}T15:00:00Z"))
        kinds.append(("released", last))
    rows["events"] += [
        (record.job, number, kind, f"{day}T15:00:00Z")
        for number, (kind, day) in enumerate(kinds, 1)
    ]


def _insert(table: str, values: list[tuple[Any, ...]]) -> str:
    lines = ",\n".join(f"    ({', '.join(map(_literal, row))})" for row in values)
    return f"INSERT INTO {table} VALUES\n{lines};\n"


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else f"'{value}'"


def parts_of(task: Task, words: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The task's three files, by folder."""
    family, record = task.family, task.record
    reply = words["replies"][family.right].format(job=record.job)
    return {
        "world/tasks": {
            "id": task.task_id,
            "opening": opening(family, record, words["openings"]),
            "limits": LIMITS,
            "tags": {
                "workflow": family.slug,
                "failure_mode": family.failure_mode,
                "split": task.split,
            },
        },
        "user": {
            "task": task.task_id,
            "context": f"You are {record.caller}. You mean {record.job}.",
            "script": [
                {"when": r"(?i)which job", "say": f"{record.job}."},
                {"when": r"(?i)(your name|who are you)", "say": f"{record.caller}."},
            ],
        },
        "private": {
            "task": task.task_id,
            "golden": {"actions": actions(family.right, record), "reply": reply},
            "checks": [
                {"name": "final state", "kind": "state"},
                {"name": "names the job", "kind": "reply", "contains_all": [record.job]},
            ],
            "extra_write": call("cancel", job=record.other),
            "near_misses": [
                {
                    "name": f"plays: {miss}",
                    "actions": actions(miss, record),
                    "reply": words["replies"][miss].format(job=record.job),
                }
                for miss in family.misses
            ],
        },
    }


def files(train_tasks: int) -> Iterator[tuple[Path, str]]:
    """Every file that is written, with its text."""
    words = yaml.safe_load((ROOT / "words.yaml").read_text())
    world = draw_world(words["names"], train_tasks)
    yield ROOT / "world/seed.sql", seed_sql(world, words)
    for task in world.tasks:
        for folder, content in parts_of(task, words).items():
            text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
            yield ROOT / folder / f"{task.slug}.yaml", text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the committed files")
    parser.add_argument(
        "--train-tasks",
        type=int,
        choices=range(1, MOST_TRAIN_TASKS + 1),
        default=TRAIN_TASKS,
        metavar=f"1..{MOST_TRAIN_TASKS}",
        help=f"training tasks of each family; {TRAIN_TASKS} are committed",
    )
    options = parser.parse_args()
    check, wanted = options.check, dict(files(options.train_tasks))
    known = {path for part in PARTS for path in (ROOT / part).glob("*.yaml")}
    different = sorted(
        path for path, text in wanted.items() if not path.exists() or path.read_text() != text
    ) + sorted(known - set(wanted))
    if check:
        for path in different:
            print(f"out of date: {path.relative_to(ROOT)}", file=sys.stderr)
        return 1 if different else 0
    for path in different:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path])
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
