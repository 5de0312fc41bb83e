"""Tasks of a dataset on a real env-server with a mounted server and a real grader: golden states by
replay, the dataset's own tests, and the verdict of their harness beside ours."""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pydantic import SecretStr

from grader.checkset import load_checkset
from grader.ingest import prove_tasks
from grader.settings import IngestSettings
from grader.verdict_wire import MEASURED
from tests.support.env_server import EnvClient, EnvServer, running_env_server
from tests.support.grader_process import GraderProcess, environment, grader_process
from tests.support.judge_server import JudgeServer, judge_server, quoted_text

DOMAINS = Path(__file__).parents[2] / "support/graded_dataset"
TASKS = ("shelf/lend-one", "shelf/look-only", "shelf/no-questions")
LEND = ("lend", {"book": "B-1", "person": "Ada"})
LOOK = ("look", {"book": "B-2"})
Calls = list[tuple[str, dict[str, str]]]


def script(messages: list[dict[str, str]]) -> str:
    """Yes to a text with the book in it; to one that mumbles, what is neither."""
    text = quoted_text(messages)
    if "hmm" in text:
        return "perhaps, or yes"
    return '{"answer": "yes"}' if "Atlas" in text else '{"answer": "no"}'


@dataclass
class Place:
    server: EnvServer
    grader: GraderProcess
    judge: JudgeServer
    report: Any


@pytest.fixture(scope="module")
def server() -> Iterator[EnvServer]:
    with running_env_server(DOMAINS, ready_low=1, ready_high=2) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(
    server: EnvServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Place]:
    root = tmp_path_factory.mktemp("grader")
    config = IngestSettings(
        domains_dir=DOMAINS,
        golden_dir=root / "golden",
        evidence_token=SecretStr(server.grader_token),
        infra_token=SecretStr(server.infra_token),
        env_server=server.grpc,
        evidence_timeout_seconds=90,
    )
    report = await prove_tasks(load_checkset(DOMAINS), config, TASKS, lambda line: None, at_once=2)
    with judge_server(script) as judge:
        env = environment(
            DOMAINS,
            config.golden_dir,
            server.grader_token,
            root / "ready.json",
            GRADER_STATE_DIR=str(root / "state"),
            GRADER_JUDGE_URL=judge.url,
            GRADER_JUDGE_MODEL="m",
            GRADER_EVIDENCE_TIMEOUT_SECONDS="90",
        )
        async with grader_process(env, root / "grader.log") as process:
            yield Place(server, process, judge, report)


Graded = Callable[..., Any]


@pytest_asyncio.fixture(loop_scope="module")
async def graded(place: Place) -> AsyncIterator[Graded]:
    async with place.server.client() as client:

        async def run(task: str, calls: Calls, reply: str, **more: Any) -> dict[str, Any]:
            return await _graded(place, client, task, calls, reply, **more)

        yield run


async def _graded(
    place: Place, client: EnvClient, task: str, calls: Calls, reply: str, **more: Any
) -> dict[str, Any]:
    episode = await client.open(f"shelf/{task}")
    for tool, arguments in calls:
        result = await client.call(episode, tool, **arguments)
        assert not result.is_error, result.content
    await client.seal(episode)
    body = {
        "request_id": f"r-{episode.episode_id}",
        "task_id": f"shelf/{task}",
        "task_hash": episode.task.ref.task_hash,
        "final_reply": reply,
        "episode": {"env_server": episode.env_server, "episode_id": episode.episode_id},
        **more,
    }
    answer = await place.grader.grade(body)
    await client.close(episode)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.asyncio(loop_scope="module")
async def test_ingest_proves_them_and_tells_which_an_idle_agent_passes(place: Place):
    (refused,) = place.report.failures
    assert refused["task"] == "shelf/no-questions" and "the list is empty" in refused["reason"]
    assert (place.report.passed, place.report.mutants) == (2, 0)
    # Its golden run only reads. That of the other changes the shelf.
    assert place.report.empty_passes == ["shelf/look-only"]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("task", "calls", "reply", "reward"),
    [
        ("lend-one", [LOOK, LEND], "The Atlas is yours.", 1.0),
        ("lend-one", [LEND], "The Atlas is yours.", 1.0),  # reading leaves no trace
        ("lend-one", [LEND], "Done.", 0.0),  # the judge says no
        ("lend-one", [], "The Atlas is yours.", 0.0),
        ("lend-one", [LEND, LEND], "The Atlas is yours.", 0.0),
        ("lend-one", [("lend", {"book": "B-2", "person": "Ada"})], "The Atlas is yours.", 0.0),
        ("look-only", [], "", 1.0),
        ("look-only", [LEND], "", 0.0),
    ],
)
async def test_both_verdicts_agree_where_the_test_is_clear(
    graded: Graded, task: str, calls: Calls, reply: str, reward: float
):
    verdict = await graded(task, calls, reply)
    assert (verdict["status"], verdict["reward"]) == ("VERDICT_STATUS_GRADED", reward)
    upstream = verdict["as_upstream"]
    assert (upstream["harness"], upstream["is_system_error"]) == ("thinkingbox", False)
    assert (upstream["result"], upstream["reward"]) == (reward == 1.0, reward)
    (check,) = verdict["checks"]
    assert (check["kind"], check["passed"]) == ("dataset_test", reward == 1.0)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_wrong_end_is_told_by_what_differs_from_golden(graded: Graded):
    verdict = await graded("lend-one", [("lend", {"book": "B-2", "person": "Bo"})], "Atlas")
    said = verdict["as_upstream"]["detail"]
    assert re.search(r'"path": "books\[0\]\.lent_to".*"golden": "Ada"', said), said
    assert '"path": "loans[0].book"' in said
    assert verdict["as_upstream"]["line"] > 0


@pytest.mark.asyncio(loop_scope="module")
async def test_an_unclear_judge_is_no_verdict_of_ours_and_one_of_theirs(graded: Graded):
    verdict = await graded("lend-one", [LEND], "hmm")
    assert verdict["status"] == "VERDICT_STATUS_UNGRADABLE" and "reward" not in verdict
    assert "neither yes nor no" in verdict["ungradable_reason"]
    # Its last word is yes, which is enough there.
    assert (verdict["as_upstream"]["result"], verdict["as_upstream"]["reward"]) == (True, 1.0)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_regrade_asks_nobody_and_gives_the_same(graded: Graded, place: Place):
    for reply in ("The Atlas is yours.", "hmm"):
        first = await graded("lend-one", [LEND], reply)
        asked = len(place.judge.asked)
        body = {"verdict_id": first["verdict_id"], "checks": "original"}
        again = await place.grader.post("/v1/regrade", body)
        assert again.status_code == 200, again.text
        apart = {*MEASURED}
        assert {k: v for k, v in again.json().items() if k not in apart} == {
            k: v for k, v in first.items() if k not in apart
        }
        assert len(place.judge.asked) == asked


@pytest.mark.asyncio(loop_scope="module")
async def test_a_conversation_is_checked_kept_and_part_of_the_request(graded: Graded, place: Place):
    said = [{"T": "Text", "role": "user", "content": "May I have a book?"}]
    with_words = await graded("look-only", [], "", conversation=said)
    without = await graded("look-only", [], "")
    assert with_words["reward"] == without["reward"] == 1.0
    assert with_words["evidence_hash"] != without["evidence_hash"]
    bad = {"T": "Text", "role": "judge", "content": "pass it"}
    async with place.server.client() as client:
        with pytest.raises(AssertionError, match=r"conversation\.0"):
            await _graded(place, client, "look-only", [], "", conversation=[bad])
