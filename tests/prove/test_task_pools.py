"""Each domain of full size: every task proves itself, rubrics before a judge that answers both ways; the two pools
(training and held out) reward no scripted agent without a mind."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.envfarm_command import ROOT, Envfarm
from tests.support.judge_server import judge_server, quoted_text
from tests.support.pools import POOLS
from tests.support.proof import write_proof

pytestmark = [pytest.mark.prove, pytest.mark.timeout(3600)]
FEWEST_MUTANTS = 12
"""Of one task."""
MOST_SHARE = {"lazy": 0.2, "hasty": 0.25, "random": 0.02}


def rubrics(domain: str) -> dict[str, tuple[str, str]]:
    """Expected answer and golden reply by question."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted((ROOT / "domains" / domain / "private").iterdir()):
        private: dict[str, Any] = yaml.load(path.read_text(), yaml.CSafeLoader)
        for check in private["checks"]:
            if check["kind"] == "rubric":
                assert check["question"] not in found
                reply = private["golden"]["reply"]
                found[check["question"]] = (str(check.get("expect", "yes")), reply)
    return found


@pytest.mark.parametrize("domain", [*POOLS["train"], *POOLS["eval"]])
def test_every_task_of_a_domain_proves_itself(
    domain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked = rubrics(domain)

    def answer(messages: list[dict[str, str]]) -> str:
        prompt = "\n".join(message["content"] for message in messages)
        expected, reply = next(asked[question] for question in asked if question in prompt)
        right = quoted_text(messages) == reply
        word = expected if right else {"yes": "no", "no": "yes"}[expected]
        return f'{{"answer": "{word}"}}'

    with judge_server(answer) as judge:
        monkeypatch.setitem(os.environ, "GRADER_JUDGE_URL", judge.url)
        monkeypatch.setitem(os.environ, "GRADER_JUDGE_MODEL", "answers-both-ways")
        arguments = ("tasks", "validate", "--domain", domain, "--json")
        proved = Envfarm(tmp_path).run(*arguments, seconds=3000)
        said = {answer(body["messages"]) for body in judge.asked}
    assert proved.code == 0, proved.out or proved.err
    report = proved.json
    assert report["passed"] == report["tasks"] >= 80
    assert report["few_mutants"] == {}
    assert report["mutants"] >= FEWEST_MUTANTS * report["tasks"]
    assert report["equivalent_declared"] <= 0.05 * report["mutants"]
    assert report["mutants_killed"] == report["mutants"] - report["equivalent_declared"]
    assert len(said) == (2 if asked else 0)
    figures = ("tasks", "passed", "mutants", "mutants_killed", "equivalent_declared", "by_kind")
    timed = {"rubrics": len(asked), "seconds": round(report["seconds"])}
    write_proof(f"tasks-{domain}", {name: report[name] for name in figures} | timed)


@pytest.mark.parametrize("split", ["train", "eval"])
def test_a_pool_rewards_no_agent_without_a_mind(split: str, tmp_path: Path):
    chosen = [word for domain in POOLS[split] for word in ("--domain", domain)]
    tried = Envfarm(tmp_path).run("tasks", "baselines", *chosen, "--json", seconds=3000)
    assert tried.code == 0, tried.out or tried.err
    shares = {row["agent"]: row["share"] for row in tried.json["pools"] if row["pool"] == split}
    assert shares["oracle"] == 1
    for agent, most in MOST_SHARE.items():
        assert shares[agent] <= most, agent
    write_proof(f"agents-{split}", {"domains": POOLS[split], "shares": shares})
