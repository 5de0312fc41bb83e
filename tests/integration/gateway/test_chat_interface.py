"""An evaluation whose policy is a chat endpoint: no engine, no version, the same tools and grader."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from envfarm.errors import InvalidArgument
from envfarm.v1 import gateway_service_pb2 as wire

from tests.integration.gateway.conftest import DOMAINS
from tests.support.chat_server import chat_server, spoken, turns_so_far

TASK = "orders/refund-damaged"
GOLDEN = yaml.safe_load((DOMAINS / "orders" / "private" / "refund-damaged.yaml").read_text())[
    "golden"
]


def right(body: dict[str, Any]) -> dict[str, Any]:
    turn = turns_so_far(body)
    if turn < len(GOLDEN["actions"]):
        action = GOLDEN["actions"][turn]
        return spoken("", (action["tool"], action["arguments"]))
    return spoken(GOLDEN["reply"])


def rows(state: Path, job: str) -> list[dict[str, Any]]:
    text = (state / "jobs" / job / "attempts.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.timeout(300)
async def test_a_chat_endpoint_is_evaluated_like_an_engine(farm, tmp_path):
    refusals = iter([500, 429])

    def script(body: dict[str, Any]) -> dict[str, Any] | int:
        return next(refusals, 0) or right(body)

    with chat_server(script) as server:
        it = farm(
            lambda *_: "never",
            engines="",
            chat_url=server.url,
            chat_model="other",
            chat_key="k" * 8,
        )
        status = await it.gateway.call("GetStatus", wire.GetStatusRequest())
        assert (status.chat.model, status.chat.url) == ("other", server.url)
        await it.gateway.submit(
            "talk", [TASK], publish=False, kind=wire.JOB_KIND_EVAL, group_size=2, interface="chat"
        )
        done = await it.gateway.done("talk", 240)
    assert done.state == wire.JOB_STATE_DONE
    found = rows(tmp_path / "state", "talk")
    assert [row["reward"] for row in found] == [1.0, 1.0], found
    for row in found:
        assert (row["interface"], row["policy_hash"], row["policy_numbers"]) == (
            "chat",
            "other",
            [],
        )
        turns = len(GOLDEN["actions"]) + 1
        assert row["turns"] >= turns and row["sampled_tokens"] == 10 * row["turns"]
        assert row["prompt_tokens"] == 100 * row["turns"]
    assert "k" * 8 not in it.gateway.log()
    assert server.keys == {"Bearer " + "k" * 8}


async def test_a_refused_key_ends_a_job_soon_and_says_why(farm, tmp_path):
    with chat_server(lambda body: 401) as server:
        it = farm(lambda *_: "never", engines="", chat_url=server.url, chat_model="other")
        await it.gateway.submit(
            "shut", [TASK], publish=False, kind=wire.JOB_KIND_EVAL, group_size=1, interface="chat"
        )
        await it.gateway.done("shut", 60)
    (row,) = rows(tmp_path / "state", "shut")
    assert (row["error_class"], row["boundary"], row["reward"]) == (
        "EndpointRefused",
        "engine",
        None,
    )
    assert "HTTP 401" in row["message"]


async def test_chat_jobs_need_an_endpoint_and_never_train(farm):
    it = farm(lambda *_: "Good day.")
    with pytest.raises(InvalidArgument, match="no chat endpoint"):
        await it.gateway.submit("talk", [TASK], publish=False, group_size=1, interface="chat")
    with pytest.raises(InvalidArgument, match="nothing to train on"):
        await it.gateway.submit("talk", [TASK], group_size=1, interface="chat")
    with pytest.raises(InvalidArgument, match="neither tokens nor chat"):
        await it.gateway.submit("talk", [TASK], publish=False, group_size=1, interface="fax")
