from grader.verdict import CheckResult, decide


def result(passed: bool) -> CheckResult:
    return CheckResult(name="c", kind="state", passed=passed, expected="", observed="")


def test_all_passed_is_reward_one():
    decision = decide([result(True), result(True)], [])
    assert (decision.status, decision.reward, decision.reason) == ("graded", 1.0, "")


def test_one_failure_is_reward_zero():
    decision = decide([result(True), result(False)], [])
    assert (decision.status, decision.reward) == ("graded", 0.0)


def test_an_obstacle_leaves_no_reward_even_when_a_check_failed():
    decision = decide([result(False)], ["a check cannot run"])
    assert (decision.status, decision.reward) == ("ungradable", None)
    assert decision.reason == "a check cannot run"


def test_every_obstacle_is_named():
    assert decide([], ["one", "two"]).reason == "one; two"


def test_no_result_at_all_is_not_a_pass():
    decision = decide([], [])
    assert (decision.status, decision.reward) == ("ungradable", None)
