"""The catalogue of mutants, made by hand for a small golden run."""

import json

from envfarm.canonical import bytes_hash, canonical_json, content_hash
from envfarm.v1 import task_pb2

from grader.check_kinds import StateCheck
from grader.checkset import Action, CheckFile
from grader.proof.argument_values import changed_values
from grader.proof.equivalence import free_texts
from grader.proof.mutants import Mutant, catalogue
from grader.proof.neighbours import Neighbours
from grader.proof.prover import TaskProof
from grader.proof.report import combine
from grader.world_base import BaseTable, WorldBase
from tests.support.shop_world import START, after, golden

ORDERS = [
    {"order_id": f"O-{n}", "status": "placed" if n % 2 else "shipped", "total": n}
    for n in range(1, 9)
]
ITEMS = [{"id": n, "name": f"item {n}"} for n in range(1, 4)]


def base() -> WorldBase:
    def table(rows: list[dict], key: str) -> BaseTable:
        texts = [canonical_json(row) for row in rows]
        hashed = bytes_hash("\n".join(texts).encode())
        return BaseTable(columns=sorted(rows[0]), key_columns=[key], rows=texts, hash=hashed)

    tables = {"orders": table(ORDERS, "order_id"), "items": table(ITEMS, "id")}
    return WorldBase(
        world_id="shop",
        world_hash="a" * 64,
        world_now="2026-03-02T09:00:00Z",
        schema_sql="",
        initial_state_hash=content_hash({name: t.hash for name, t in tables.items()}),
        tables=tables,
    )


NEIGHBOURS = Neighbours(base())


def tool(name: str, access: int, **properties: dict) -> task_pb2.ToolSpec:
    schema = json.dumps({"properties": properties})
    return task_pb2.ToolSpec(name=name, access=access, input_schema_json=schema)  # pyright: ignore[reportArgumentType]


TASK = task_pb2.Task(
    tools=[
        tool("look", task_pb2.TOOL_ACCESS_READ),
        tool("cancel", task_pb2.TOOL_ACCESS_WRITE),
        tool("pay", task_pb2.TOOL_ACCESS_WRITE, why={"enum": ["late", "lost", "broken", "other"]}),
    ]
)
LOOK = Action(tool="look", arguments={"order_id": "O-1"})
CANCEL = Action(tool="cancel", arguments={"order_id": "O-1"})
PAY = Action(
    tool="pay", arguments={"order_id": "O-1", "amount": 2.5, "why": "late", "note": "so sorry"}
)
EXTRA = Action(tool="cancel", arguments={"order_id": "O-2"})


def checks(*actions: Action, **more) -> CheckFile:
    return CheckFile.model_validate(
        {
            "task": "shop/t",
            "golden": {"actions": [a.model_dump() for a in actions], "reply": "Done."},
            "checks": [
                {"name": "s", "kind": "state"},
                {"name": "r", "kind": "reply", "contains_all": ["done"]},
            ],
            "extra_write": EXTRA.model_dump(),
            **more,
        }
    )


def made(*actions: Action, free: frozenset[str] = frozenset(), **more) -> dict[str, Mutant]:
    found = catalogue(TASK, checks(*actions, **more), NEIGHBOURS, free)
    assert len({mutant.name for mutant in found}) == len(found)
    return {mutant.name: mutant for mutant in found}


def test_one_writing_call_makes_these_mutants():
    mutants = made(LOOK, PAY)
    assert sorted(mutants) == [
        "argument changed: write 1 pay amount half of it",
        "argument changed: write 1 pay amount one more",
        "argument changed: write 1 pay note another text",
        "argument changed: write 1 pay why is broken",
        "argument changed: write 1 pay why is lost",
        "done twice: write 1 pay",
        "extra write: cancel",
        "extra write: write 1 pay also for another order_id",
        "half done: everything but the reply",
        "half done: nothing but the reply",
        "neighbour's record: another order_id than O-1",
    ]
    assert mutants["done twice: write 1 pay"].runs == ((PAY, PAY),)
    assert mutants["half done: nothing but the reply"].runs == ((),)
    assert mutants["half done: everything but the reply"].reply == ""
    assert mutants["extra write: cancel"].runs == ((PAY, EXTRA),)
    assert mutants["extra write: cancel"].must_run


def test_two_writing_calls_are_dropped_halved_exchanged_and_repeated():
    mutants = made(LOOK, CANCEL, PAY)
    assert mutants["call dropped: write 1 cancel"].runs == ((PAY,),)
    # The same run as dropping the second call, under the name that came first.
    assert mutants["call dropped: write 2 pay"].runs == ((CANCEL,),)
    assert "half done: the first 1 of 2 writes" not in mutants
    assert mutants["order broken: write 2 pay before write 1 cancel"].runs == ((PAY, CANCEL),)
    assert mutants["done twice: the whole run"].runs == ((CANCEL, PAY, CANCEL, PAY),)


def test_the_neighbour_is_the_most_similar_record_and_the_whole_run_moves_to_it():
    runs = made(CANCEL, PAY)["neighbour's record: another order_id than O-1"].runs
    ids = [[action.arguments["order_id"] for action in run] for run in runs]
    assert ids == [["O-3"] * 2, ["O-5"] * 2, ["O-7"] * 2]


def test_reading_calls_are_left_out_and_a_run_without_writes_has_only_declared_mutants():
    assert sorted(made(LOOK)) == ["extra write: cancel"]
    miss = {"name": "looks away", "actions": [CANCEL.model_dump()], "reply": "No."}
    found = made(LOOK, near_misses=[miss])["near miss: looks away"]
    assert (found.runs, found.reply, found.must_run) == (((CANCEL,),), "No.", True)


def test_free_text_is_not_changed_and_a_closed_list_never_is_free_text():
    mutants = made(PAY, free=frozenset({"so sorry", "late"}))
    assert not any("note" in name for name in mutants)
    assert "argument changed: write 1 pay why is lost" in mutants


def values(argument: str, value, **schema) -> list:
    return [tried for _, tried in changed_values(argument, value, schema, NEIGHBOURS)]


def test_each_type_has_its_own_mistakes():
    assert values("n", 3) == [[4], [2]]
    assert values("amount", 2.5) == [[3.5], [1.25]]
    assert values("flag", True) == [[False]]
    assert values("x", None) == []
    assert values("on", "2026-03-02") == [["2026-03-03"]]
    assert values("at", "2026-03-02T09:30:00+00:00") == [["2026-03-02T10:30:00+00:00"]]
    assert values("postcode", "34129") == [["34120", "3412"]]
    assert values("note", "late") == [["late x", "latex", "lat"]]
    assert values("tags", ["a", "b"]) == [[["a"]]]
    assert values("to", {"city": "Kassel", "zip": 1}) == [
        [{"city": "Kassel x", "zip": 1}, {"city": "Kasselx", "zip": 1}, {"city": "Kasse", "zip": 1}]
    ]
    assert values("why", "a", anyOf=[{"enum": ["a", "b"]}, {"type": "null"}]) == [["b"]]
    assert values("order_id", "O-1") == [["O-3", "O-5", "O-7"]]


def test_a_number_names_a_record_only_where_the_argument_is_called_so():
    assert NEIGHBOURS.of("item_id", 2) == [1, 3]
    assert NEIGHBOURS.of("quantity", 2) == []
    assert NEIGHBOURS.of("item_id", True) == []


def test_a_text_is_free_where_every_state_check_says_so():
    end = golden(after(notes=[*START["notes"], {"id": 8, "account": 1, "text": "it is: so sorry"}]))

    def file(*states: StateCheck) -> CheckFile:
        return checks(PAY).model_copy(update={"checks": list(states)})

    loose = StateCheck(name="a", kind="state", unstable=["notes.text"])
    strict = StateCheck(name="b", kind="state")
    assert free_texts(file(loose), end) == {"so sorry"}
    assert free_texts(file(loose, strict), end) == frozenset()
    assert free_texts(file(strict), end) == frozenset()


def test_a_report_counts_over_all_tasks():
    proofs = [
        TaskProof("b", [], {"half done": 12}, {"half done": 11}, equivalent=1),
        TaskProof(
            "a", ["x", "y"], {"half done": 4, "near miss": 2}, {"half done": 4}, no_mutants=3
        ),
    ]
    report = combine(proofs, is_whole=True)
    assert (report.tasks, report.passed, report.mutants, report.mutants_killed) == (2, 1, 18, 15)
    assert report.by_kind["half done"] == {"mutants": 16, "killed": 15}
    assert [failure["task"] for failure in report.failures] == ["a", "a", "all"]
    assert (report.equivalent_declared, report.no_mutants) == (1, 3)
    assert [f["task"] for f in combine(proofs, is_whole=False).failures] == ["a", "a"]
    twenty = [TaskProof("a", [], {"near miss": 20}, {"near miss": 19}, equivalent=1)]
    assert combine(twenty, is_whole=True).failures == []
