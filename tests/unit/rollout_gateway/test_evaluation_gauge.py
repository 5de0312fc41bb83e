from envfarm.v1 import group_pb2, task_pb2

from rollout_gateway.evaluation_gauge import shares


def outcome(task: str, *rewards: float) -> group_pb2.GroupOutcome:
    return group_pb2.GroupOutcome(task=task_pb2.TaskRef(task_id=task), rewards=rewards)


def test_always_ever_and_mean_are_over_tasks():
    ended = [outcome("a", 1, 1), outcome("b", 1, 0), outcome("c", 0, 0), outcome("d", 1, 1)]
    assert shares(ended) == {"always": 0.5, "ever": 0.75, "mean": 0.625}


def test_the_groups_of_one_task_count_together():
    ended = [outcome("a", 1, 1), outcome("a", 1, 0)]
    assert shares(ended) == {"always": 0.0, "ever": 1.0, "mean": 0.75}


def test_a_task_without_rewards_counts_nowhere():
    assert shares([outcome("a"), outcome("b", 1)]) == {"always": 1.0, "ever": 1.0, "mean": 1.0}
    assert shares([outcome("a")]) == {}
    assert shares([]) == {}
