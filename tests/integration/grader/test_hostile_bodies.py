"""Bodies that were made to break the reader: each is refused in one sentence, none is a 5xx, and the
grader goes on."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.integration.grader.test_grade_door import TOKEN, write_domains, write_golden
from tests.support.grader_process import GraderProcess, environment, grader_process
from tests.support.shop_world import TASK_HASH

HEAD = {"request_id": "h", "task_id": "shop/t", "task_hash": TASK_HASH}
OPEN = json.dumps(HEAD)[:-1].encode()


def asked(**more: object) -> bytes:
    return json.dumps({**HEAD, **more}).encode()


def at(address: str) -> dict[str, str]:
    return {"env_server": address, "episode_id": "e"}


BODIES = {
    "nothing": b"",
    "null": b"null",
    "a number": b"1",
    "not UTF-8": b"\xff\xfe{}",
    "a byte that is not UTF-8": b'{"request_id":"\xff"}',
    "NaN": b'{"request_id":NaN}',
    "a mark in front": b"\xef\xbb\xbf" + asked(),
    "more behind": asked() + b"}",
    "brackets": b"[" * 200_000,
    "objects": b'{"a":' * 100_000,
    "brackets in a table": OPEN + b',"state":{"accounts":' + b"[" * 100_000 + b"}}",
    "half a surrogate": asked(final_reply="\ud800"),
    "half a surrogate as id": asked(request_id="\udfff"),
    "a state that is a number": asked(state=5),
    "a state that is a list": asked(state=[]),
    "tables that are none": asked(state={"accounts": 5, "notes": "x"}),
    "a socket": asked(episode=at("unix:///run/x")),
    "a header": asked(episode=at("127.0.0.1:80\r\nX: y")),
    "a port too far": asked(episode=at("127.0.0.1:99999")),
    "a service file": asked(dsn="postgresql:///x?service=y&passfile=/etc/passwd"),
    "two hosts": asked(dsn="host=a,b dbname=x user=y"),
    "a NUL": asked(dsn="\0"),
    "a name that is not UTF-8": asked(dsn="postgresql://u@%ff/x"),
    "half a surrogate in a name": asked(dsn="postgresql://%ed%a0%80@h/x"),
    "an id twice": OPEN + b',"state":{},"request_id":"other"}',
    "the same id twice": OPEN + b',"state":{},"request_id":"h"}',
    "a reply twice, spelled apart": OPEN
    + b',"state":{},"final_reply":"a","final\\u005freply":"b"}',
    "a state twice": OPEN + b',"state":{},"state":{"accounts":[]}}',
    "a state that takes itself back": OPEN + b',"state":{"accounts":[]},"state":null}',
    "a table twice": OPEN + b',"state":{"accounts":[],"accounts":[{"id":1}]}}',
    "an episode's id twice": OPEN
    + b',"episode":{"env_server":"127.0.0.1:1","episode_id":"a","episode_id":"b"}}',
    "a number that no double holds": OPEN
    + b',"state":{},"conversation":[{"T":"ToolCall","name":"t","id":"i","arguments":{"a":1e999}}]}',
    "an argument twice": OPEN
    + b',"state":{},"conversation":[{"T":"ToolCall","name":"t","id":"i","arguments":{"a":1,"a":2}}]}',
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grader(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GraderProcess]:
    root = tmp_path_factory.mktemp("hostile")
    domains = write_domains(root)
    golden = write_golden(root / "golden", domains)
    env = environment(domains, golden, TOKEN, root / "ready.json")
    async with grader_process(env, root / "log") as process:
        yield process
    assert "Traceback" not in (root / "log").read_text()


@pytest.mark.parametrize("name", BODIES)
async def test_a_hostile_body_is_refused_in_one_sentence(grader: GraderProcess, name: str):
    for path in ("/v1/grade", "/v1/regrade", "/v1/grade/batch"):
        answer = await grader.post_bytes(path, BODIES[name])
        assert answer.status_code == 422, answer.text[:300]
        problem = answer.json()
        assert problem["code"] == "ERROR_CODE_INVALID_ARGUMENT"
        assert problem["detail"] and "\n" not in problem["detail"]
    batch = await grader.post_bytes("/v1/grade/batch", b'{"requests":[' + BODIES[name] + b"]}")
    problems = [item["problem"] for item in batch.json().get("results", [])] or [batch.json()]
    assert {problem["status"] for problem in problems} == {422}


@pytest.mark.parametrize("name", ["%00", "a" * 5000, "%ed%a0%80xxxxxxxx", "..%2f..%2fetc%2fpasswd"])
async def test_an_id_of_a_verdict_that_cannot_be_one_is_not_found(grader: GraderProcess, name: str):
    assert (await grader.get(f"/v1/verdicts/{name}")).status_code == 404


async def test_a_token_of_any_length_opens_nothing(grader: GraderProcess):
    assert (await grader.post("/v1/grade", {}, token="x" * 20_000)).status_code == 401
