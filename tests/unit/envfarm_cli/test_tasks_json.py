"""`tasks list` and `tasks show` for machines."""

import json
from pathlib import Path

from envfarm_cli.main import main

DOMAINS = str(Path(__file__).parents[3] / "domains")


def test_list_gives_every_task_with_its_tags(capsys):
    assert main(["tasks", "list", "--json", "--domains", DOMAINS, "--domain", "orders"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is True
    assert len(said["tasks"]) == 12
    assert {task["tags"]["split"] for task in said["tasks"]} == {"train", "eval"}
    assert all(task["opening"] for task in said["tasks"])


def test_show_keeps_the_private_half_back_unless_asked(capsys):
    arguments = ["tasks", "show", "orders/refund-damaged", "--json", "--domains", DOMAINS]
    assert main(arguments) == 0
    task = json.loads(capsys.readouterr().out)["task"]
    assert "private" not in task
    assert main([*arguments, "--private"]) == 0
    task = json.loads(capsys.readouterr().out)["task"]
    assert task["private"]["golden"]["actions"][0]["tool"] == "find_customer"
