"""What demonstrations are made of: the training tasks' golden runs and near misses, nothing else."""

import json
import re
from pathlib import Path

import pytest

from envfarm_cli.demonstrations import call_text, demonstration_plans, domain_text
from envfarm_cli.domain_files import find_tasks, read_yaml
from envfarm_cli.failure import BadInput
from learner.tiny_model import train_tokenizer
from rollout_gateway.chat.parse import ToolCall, parse

DOMAINS = Path(__file__).parents[3] / "domains"


@pytest.fixture(scope="module")
def plans() -> dict:
    return demonstration_plans(DOMAINS, "counter", per_task=8, seed=1)


def test_only_training_tasks_are_demonstrated(plans: dict):
    train = {
        files.task_id
        for files in find_tasks(DOMAINS, "counter")
        if read_yaml(files.public)["tags"]["split"] == "train"
    }
    assert set(plans) == train


def test_no_record_of_a_held_out_task_is_in_the_tokenizers_text(plans: dict):
    text = domain_text(DOMAINS, "counter", plans)
    for files in find_tasks(DOMAINS, "counter"):
        if read_yaml(files.public)["tags"]["split"] == "eval":
            golden = read_yaml(files.private)["golden"]
            assert golden["actions"][0]["arguments"]["job"] not in text


def test_half_of_the_plans_are_golden_and_every_near_miss_is_among_the_others(plans: dict):
    private = read_yaml(DOMAINS / "counter/private/refund-approval-train-1.yaml")
    made = plans["counter/refund-approval-train-1"]["plans"]
    golden = [
        *(
            call_text(action["tool"], action["arguments"])
            for action in private["golden"]["actions"]
        ),
        private["golden"]["reply"],
    ]
    assert len(made) == 8
    assert made.count(golden) == 4
    wrong = {tuple(plan) for plan in made if plan != golden}
    assert len(wrong) == len(private["near_misses"]) == 4


def test_equal_seeds_give_equal_plans_and_another_seed_another_order(plans: dict):
    assert demonstration_plans(DOMAINS, "counter", 8, 1) == plans
    assert demonstration_plans(DOMAINS, "counter", 8, 2) != plans


def test_clean_demonstrations_are_all_golden():
    for task in demonstration_plans(DOMAINS, "counter", 3, 1, right_share=1.0).values():
        assert task["plans"][0] == task["plans"][1] == task["plans"][2]


def test_a_call_is_read_back_by_the_parser():
    (call,) = parse(call_text("pay", {"job": "G41", "amount": 45})).calls
    assert isinstance(call, ToolCall)
    assert (call.name, json.loads(call.arguments_json)) == ("pay", {"job": "G41", "amount": 45})


def test_a_tokenizer_of_that_text_keeps_the_system_prompt_short(plans: dict):
    text = domain_text(DOMAINS, "counter", plans)
    tokenizer = train_tokenizer([text], 768)
    prompt = re.search(r"system\n.*?To call one, write ", text, re.DOTALL)
    assert prompt
    assert len(tokenizer.encode(prompt.group()).ids) <= 300
    call = '{"name":"pay","arguments":{"job":"G41","amount":45}}'
    assert len(tokenizer.encode(call).ids) == 18
    for number in (10, 55, 98):
        assert tokenizer.encode(f" G{number}").tokens == ["Ġ", "G", *str(number)]


def test_a_domain_without_training_tasks_is_refused(tmp_path: Path):
    (tmp_path / "bare/world/tasks").mkdir(parents=True)
    with pytest.raises(BadInput, match="bare has no training tasks"):
        demonstration_plans(tmp_path, "bare", 8, 1)
