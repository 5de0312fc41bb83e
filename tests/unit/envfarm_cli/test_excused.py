"""Excused attempts: every kind is listed, and an uneven share is noticed."""

from dataclasses import replace

from envfarm.attempt_row import AttemptRow

from envfarm_cli.excused import excuses, uneven

CLEAN = AttemptRow(
    task_id="shop/a", task_hash="t", world_hash="w", tags={}, repetition=0, attempt=1,
    rollout_id="j.0.0.s0.a1", episode_id="ep-1", status="completed", reward=1.0, interface="tokens",
    policy_run="run", policy_numbers=[3], policy_hash="h", renderer_hash="r", sampling_hash="s",
    checks_hash="c", initial_state_hash="i", final_state_hash="f", prompt_tokens=1, sampled_tokens=1,
    user_tokens=0, judge_tokens=0, turns=1, tool_calls=0, tool_errors=0, seconds=1.0,
    tool_seconds=0.0, checks=[], writes={}, error_class="", boundary="", message="",
)  # fmt: skip
EXCUSED = replace(
    CLEAN, status="failed_engine", reward=None, error_class="EngineError", boundary="engine",
    message="HTTP 500",
)  # fmt: skip


def rows(task: str, clean: int, excused: int, version: int = 3) -> list[AttemptRow]:
    own = {"task_id": task, "policy_numbers": [version]}
    return [*[replace(CLEAN, **own)] * clean, *[replace(EXCUSED, **own)] * excused]


def test_each_kind_has_its_rule_and_its_first_raw_error():
    timed = replace(EXCUSED, status="timed_out", boundary="clock", error_class="TimeoutError")
    found = excuses([CLEAN, EXCUSED, EXCUSED, timed])
    assert [(one.status, one.attempts) for one in found] == [("failed_engine", 2), ("timed_out", 1)]
    assert found[0].example == "j.0.0.s0.a1: HTTP 500"
    assert found[1].rule == "our limit of wall time was reached"


def test_an_even_share_is_no_warning():
    assert uneven(rows("shop/a", 90, 10) + rows("shop/b", 90, 10)) == []
    assert uneven(rows("shop/a", 100, 0)) == []


def test_a_task_that_is_excused_more_often_is_named():
    found = uneven(rows("shop/a", 40, 30) + rows("shop/b", 70, 1) + rows("shop/c", 70, 1))
    assert ("task", "shop/a") in [(one.family, one.name) for one in found]
    worst = next(one for one in found if one.name == "shop/a")
    assert (worst.excused, worst.attempts, worst.others_excused) == (30, 70, 2)


def test_a_checkpoint_that_is_excused_more_often_is_named():
    found = uneven(rows("shop/a", 50, 30, version=1) + rows("shop/a", 80, 0, version=2))
    assert {(one.family, one.name) for one in found} == {
        ("checkpoint", "run 1"),
        ("checkpoint", "run 2"),
    }


def test_attempts_that_we_cancelled_are_neither_excused_nor_owed():
    cancelled = replace(EXCUSED, status="cancelled", boundary="gateway", task_id="shop/b")
    assert uneven(rows("shop/a", 50, 0) + [cancelled] * 50) == []
