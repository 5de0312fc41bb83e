"""Tasks of a public benchmark are known by id, by content and by the words of their first message."""

import pytest
from envfarm.errors import ConfigError

from envfarm_numbers.benchmarks import Benchmarks, id_hash
from envfarm_numbers.exclusion import Exclusions
from envfarm_numbers.task_facts import TaskFacts, text_hash

BENCH = Benchmarks(
    {id_hash("depot/one"): "bench"}, {"a" * 64: "bench"}, {text_hash("How heavy is it?"): "bench"}
)
OTHER = TaskFacts(task_id="shop/x", task_hash="b" * 64, text_hash=text_hash("Hello"))


@pytest.mark.parametrize(
    "task",
    [
        TaskFacts(task_id="depot/one", task_hash="b" * 64),
        TaskFacts(task_id="shop/renamed", task_hash="a" * 64),
        TaskFacts(
            task_id="shop/copied", task_hash="c" * 64, text_hash=text_hash("how HEAVY is it")
        ),
    ],
)
def test_id_content_and_words_each_betray_a_task(task: TaskFacts):
    with pytest.raises(ConfigError, match=f"training: {task.task_id} of bench are for evaluation"):
        BENCH.refuse([OTHER, task], "training")


def test_other_tasks_pass():
    BENCH.refuse([OTHER], "training")
    assert BENCH.of(TaskFacts(task_id="a/b", task_hash="")) == ""


def test_the_lists_that_come_with_envfarm_hold_hashes_alone():
    known = Benchmarks.known()
    assert list(known.by_id.values()).count("thinkingbox-bench-v1") == 2 * 507
    assert list(known.by_content.values()).count("thinkingbox-bench-v1") == 507
    for hashes in (known.by_id, known.by_content, known.by_text):
        assert all(len(one) == 64 and not set(one) - set("0123456789abcdef") for one in hashes)


def test_a_selection_leaves_a_benchmark_out_without_being_told():
    listed = next(iter(Benchmarks.known().by_content))
    (reason,) = Exclusions().reasons(TaskFacts(task_id="shop/copy", task_hash=listed))
    assert "for evaluation only" in reason
