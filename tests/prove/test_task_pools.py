"""Each domain of full size: every task proves itself, rubrics before a judge that answers both ways; the two pools
(training and held out) reward no scripted agent without a mind."""

import json
from dataclasses import dataclass
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
FEWEST_TASKS = {"train": 320, "eval": 160}
MOST_SHARE = {"lazy": 0.2, "hasty": 0.25, "random": 0.02}


@dataclass(frozen=True)
class Question:
    """One rubric's question, and what is right to answer about which texts."""

    expected: str
    golden_replies: set[str]

    def answer(self, text: str) -> str:
        """As expected of a golden reply, and the opposite of any other text."""
        opposite = {"yes": "no", "no": "yes"}[self.expected]
        return self.expected if text in self.golden_replies else opposite


def rubrics(domain: str) -> dict[str, Question]:
    """By question, as the judge reads it."""
    found: dict[str, Question] = {}
    for path in sorted((ROOT / "domains" / domain / "private").glob("*.yaml")):
        private: dict[str, Any] = yaml.load(path.read_text(), yaml.CSafeLoader)
        for check in private["checks"]:
            if check["kind"] == "rubric":
                expected = str(check.get("expect", "yes"))
                asked = " ".join(check["question"].split())
                question = found.setdefault(asked, Question(expected, set()))
                assert question.expected == expected, path
                question.golden_replies.add(private["golden"]["reply"])
    return found


def asked_question(messages: list[dict[str, str]]) -> str:
    first = messages[-1]["content"].partition("\n")[0]
    return first.removeprefix("Question: ")


@pytest.mark.parametrize("domain", [*POOLS["train"], *POOLS["eval"]])
def test_every_task_of_a_domain_proves_itself(
    domain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    questions = rubrics(domain)

    def answer(messages: list[dict[str, str]]) -> str:
        question = questions[asked_question(messages)]
        return json.dumps({"answer": question.answer(quoted_text(messages))})

    with judge_server(answer) as judge:
        monkeypatch.setenv("GRADER_JUDGE_URL", judge.url)
        monkeypatch.setenv("GRADER_JUDGE_MODEL", "answers-both-ways")
        arguments = ("tasks", "validate", "--domain", domain, "--json")
        proved = Envfarm(tmp_path).run(*arguments, seconds=3000)
        said = {
            (asked_question(body["messages"]), answer(body["messages"])) for body in judge.asked
        }
    assert proved.code == 0, proved.out or proved.err
    report = proved.json
    assert report["passed"] == report["tasks"] >= 80
    assert report["few_mutants"] == {}
    assert report["idle_checks"] == []
    assert report["mutants"] >= FEWEST_MUTANTS * report["tasks"]
    assert report["equivalent_declared"] <= 0.05 * report["mutants"]
    assert report["mutants_killed"] == report["mutants"] - report["equivalent_declared"]
    assert {question for question, _ in said} == set(questions)
    assert len({word for _, word in said}) == (2 if questions else 0)
    figures = ("tasks", "passed", "mutants", "mutants_killed", "equivalent_declared", "by_kind")
    timed = {"rubrics": len(questions), "seconds": round(report["seconds"])}
    write_proof(f"tasks-{domain}", {name: report[name] for name in figures} | timed)


@pytest.mark.parametrize("split", POOLS)
def test_a_pool_rewards_no_agent_without_a_mind(split: str, tmp_path: Path):
    chosen = [word for domain in POOLS[split] for word in ("--domain", domain)]
    tried = Envfarm(tmp_path).run("tasks", "baselines", *chosen, "--json", seconds=3000)
    assert tried.code == 0, tried.out or tried.err
    assert {row["pool"] for row in tried.json["pools"]} == {split}
    assert tried.json["tasks"] >= FEWEST_TASKS[split]
    shares = {row["agent"]: row["share"] for row in tried.json["pools"] if row["pool"] == split}
    assert shares["oracle"] == 1
    for agent, most in MOST_SHARE.items():
        assert shares[agent] <= most, agent
    write_proof(f"agents-{split}", {"domains": POOLS[split], "shares": shares})
