"""Further mutants, made by hand for tasks that write once or not at all."""

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from envfarm.v1 import task_pb2

from grader.checkset import Action, CheckFile
from grader.proof.further import further
from grader.proof.mutants import LEAST_MUTANTS, Mutant, catalogue
from grader.proof.neighbours import Neighbours
from grader.proof.prover import Prover, TaskProof
from grader.proof.report import combine
from grader.world_base import WorldBase
from tests.unit.grader.test_mutants import base


def tool(name: str, access: int, required: Sequence[str], **properties: dict) -> task_pb2.ToolSpec:
    schema = {"properties": properties, "required": list(required)}
    return task_pb2.ToolSpec(name=name, access=access, input_schema_json=json.dumps(schema))  # pyright: ignore[reportArgumentType]


READ, WRITE = task_pb2.TOOL_ACCESS_READ, task_pb2.TOOL_ACCESS_WRITE
WHY = {"enum": ["late", "lost", "broken"]}
TASK = task_pb2.Task(
    tools=[
        tool("look", READ, ["order_id"]),
        tool("cancel", WRITE, ["order_id"]),
        tool("refuse", WRITE, ["order_id", "why"], why=WHY),
        tool("pay", WRITE, ["order_id", "amount"], note={"type": "string"}),
    ]
)
WORLD: WorldBase = base()


def call(name: str, **arguments) -> Action:
    return Action(tool=name, arguments=arguments)


LOOK, CANCEL = call("look", order_id="O-1"), call("cancel", order_id="O-1")
PAY = call("pay", order_id="O-1", amount=5)
REFUSE = call("refuse", order_id="O-1", why="late")
ELSEWHERE = call("cancel", order_id="O-2")


def made(
    golden: Sequence[Action], misses: Mapping[str, Sequence[Action]], *free: str
) -> dict[str, Mutant]:
    checks = CheckFile.model_validate(
        {
            "task": "shop/t",
            "golden": {"actions": [a.model_dump() for a in golden], "reply": "Done."},
            "checks": [{"name": "s", "kind": "state"}],
            "extra_write": ELSEWHERE.model_dump(),
            "near_misses": [
                {"name": name, "actions": [a.model_dump() for a in run], "reply": "So be it."}
                for name, run in misses.items()
            ],
        }
    )
    neighbours = Neighbours(WORLD)
    known = catalogue(TASK, checks, neighbours, frozenset(free))
    found = list(further(TASK, checks, neighbours, frozenset(free), known))
    names = [mutant.name for mutant in [*known, *found]]
    assert len(set(names)) == len(names)
    assert all(mutant.only_if_accepted and mutant.reply == "Done." for mutant in found)
    return {mutant.name: mutant for mutant in found}


def runs(found: dict[str, Mutant], kind: str) -> dict[str, tuple[Action, ...]]:
    return {
        name.removeprefix(f"{kind}: "): mutant.runs[0]
        for name, mutant in found.items()
        if mutant.kind == kind
    }


def test_who_gives_in_does_the_right_thing_and_then_what_only_the_near_miss_writes():
    found = made([LOOK, REFUSE], {"pays": [LOOK, PAY], "both": [REFUSE, PAY], "same": [REFUSE]})
    # "both" writes nothing more than "pays" beyond the right run, and "same" nothing at all.
    assert runs(found, "gives in") == {"pays": (REFUSE, PAY)}


def test_a_call_is_made_with_each_other_tool_whose_arguments_are_known():
    found = made([LOOK, CANCEL], {"refuses": [REFUSE]})
    # Nobody names an amount, so that nothing is paid.
    assert runs(found, "another tool") == {
        "write 1 cancel is refuse(O-1, lost)": (call("refuse", order_id="O-1", why="lost"),),
        "write 1 cancel is refuse(O-1, late)": (REFUSE,),
    }
    found = made([LOOK, CANCEL], {"pays": [PAY]})
    assert "write 1 cancel is pay(5, O-1)" in runs(found, "another tool")


def test_a_run_that_should_write_nothing_writes_with_every_tool():
    extra = runs(made([LOOK], {"refuses": [REFUSE]}), "extra write")
    assert extra["cancel(O-1), which nobody asked for"] == (CANCEL,)
    assert extra["refuse(O-1, lost), which nobody asked for"] == (
        call("refuse", order_id="O-1", why="lost"),
    )
    # The declared one stands on O-2; its neighbours are the other shipped orders.
    elsewhere = [
        run[0].arguments["order_id"] for name, run in extra.items() if "cancel for" in name
    ]
    assert elsewhere == ["O-4", "O-6", "O-8"]


def test_a_near_miss_is_half_done_and_moved_to_similar_records():
    found = made([LOOK], {"pays and cancels": [PAY, CANCEL]})
    assert runs(found, "near miss half done") == {"pays and cancels, the first 1": (PAY,)}
    moved = runs(found, "neighbour's record")
    assert moved["pays and cancels, order_id is O-3"] == (
        call("pay", order_id="O-3", amount=5),
        call("cancel", order_id="O-3"),
    )
    assert len(moved) == 3


def test_the_right_run_in_other_words_is_not_wrong():
    def pay(order: str, note: str) -> Action:
        return call("pay", order_id=order, amount=5, note=note)

    misses = {"pays for a neighbour": [pay("O-3", "sorry")], "pays alike": [pay("O-1", "pardon")]}
    found = made([LOOK, pay("O-1", "so sorry")], misses, "so sorry")
    ends = [run[0].arguments["order_id"] for run in runs(found, "neighbour's record").values()]
    assert ends and "O-1" not in ends, "the neighbour's neighbour is the right record"
    assert list(runs(found, "gives in")) == ["pays for a neighbour"]
    strict = made([LOOK, pay("O-1", "so sorry")], misses)
    assert list(runs(strict, "gives in")) == ["pays for a neighbour", "pays alike"]


def test_a_near_miss_is_wrong_by_one_as_well():
    found = runs(made([LOOK], {"pays": [PAY]}), "argument changed")
    assert found["pays, write 1 pay amount one more"] == (call("pay", order_id="O-1", amount=6),)
    assert found["pays, write 1 pay amount one less"] == (call("pay", order_id="O-1", amount=4),)


def test_a_writing_call_is_made_once_more_with_each_of_its_records_exchanged():
    pay = call("pay", order_id="O-1", item_id=2)
    extra = runs(made([LOOK, pay], {}), "extra write")
    again = [run[1] for name, run in extra.items() if name.startswith("write 1 pay also for item")]
    assert [action.arguments for action in again] == [
        {"order_id": "O-1", "item_id": 1},
        {"order_id": "O-1", "item_id": 3},
    ]


def test_a_task_without_writes_finds_enough():
    found = made([LOOK], {"pays": [PAY]})
    assert len(list(islice(found, LEAST_MUTANTS))) == LEAST_MUTANTS


def test_few_mutants_fail_whole_domains_and_only_warn_of_single_tasks():
    few = [TaskProof("a", [], {"near miss": 11}, {"near miss": 11}), TaskProof("of others")]
    assert combine(few, is_whole=False).failures == []
    report = combine(few, is_whole=True)
    assert [failure["task"] for failure in report.failures] == ["a"]
    assert report.few_mutants == {"a": 11}
    enough = [TaskProof("a", [], {"near miss": 12}, {"near miss": 12})]
    assert combine(enough, is_whole=True).failures == []


class Counting(Prover):
    """Plays nothing: the tools accept every second call of a run."""

    def __init__(self) -> None:
        self.played: list[str] = []

    async def _try(
        self, task: Any, checks: Any, golden: Any, mutant: Mutant, proof: TaskProof
    ) -> list[str]:
        self.played.append(mutant.name)
        if len(self.played) % 2:
            proof.made[mutant.kind] = proof.made.get(mutant.kind, 0) + 1
        else:
            proof.no_mutants += 1
        return []


async def test_only_as_many_are_tried_as_are_wanting():
    mutants = [Mutant("extra write", f"extra write: {n}", ((CANCEL,),), "") for n in range(40)]
    prover, proof = Counting(), TaskProof("t", made={"half done": 8})
    tried = await prover._try_more(TASK, None, None, iter(mutants), proof)  # pyright: ignore[reportArgumentType, reportPrivateUsage]
    # Of 4 count 2, of 2 more 1, of 1 more 1.
    assert (sum(proof.made.values()), len(prover.played)) == (LEAST_MUTANTS, 7)
    assert tried == set(prover.played)
    enough = TaskProof("t", made={"half done": LEAST_MUTANTS})
    assert await Counting()._try_more(TASK, None, None, iter(mutants), enough) == set()  # pyright: ignore[reportArgumentType, reportPrivateUsage]
    few = TaskProof("t", made={"half done": 1})
    assert len(await Counting()._try_more(TASK, None, None, iter(mutants[:3]), few)) == 3  # pyright: ignore[reportArgumentType, reportPrivateUsage]
