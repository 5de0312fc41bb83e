"""The real grader process over HTTP, against evidence made by hand."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from grader.checkset import load_checkset
from grader.golden import GoldenStore, make_golden
from tests.support.canned_env_server import CannedEnvServer, canned_env_server
from tests.support.grader_process import GraderProcess, environment, grader_process
from tests.support.shop_world import START, TASK_HASH, after, evidence

TOKEN = "grader-token-for-tests"
PAID = after(notes=[*START["notes"], {"id": 8, "account": 1, "text": "paid"}])
QUERY = "SELECT count(*) = 2 AS ok FROM notes"
CHECKS = f"""\
task: shop/t
golden: {{actions: [], reply: Paid.}}
checks:
  - {{name: end, kind: state}}
  - {{name: two notes, kind: sql, query: "{QUERY}", expect: true}}
  - {{name: words, kind: reply, contains_all: [paid]}}
extra_write: {{tool: pay}}
"""

Door = tuple[GraderProcess, CannedEnvServer]


def write_domains(root: Path) -> Path:
    folder = root / "domains/shop/private"
    folder.mkdir(parents=True)
    (folder / "t.yaml").write_text(CHECKS)
    (folder / "u.yaml").write_text(CHECKS.replace("shop/t", "shop/u"))
    return root / "domains"


def write_golden(folder: Path, domains: Path) -> Path:
    checks_hash = load_checkset(domains).find("shop/t").checks_hash
    GoldenStore(folder).write(make_golden(checks_hash, evidence(START), evidence(PAID)))
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grader(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GraderProcess]:
    root = tmp_path_factory.mktemp("grader")
    domains = write_domains(root)
    golden = write_golden(root / "golden", domains)
    env = environment(domains, golden, TOKEN, root / "ready.json")
    async with grader_process(env, root / "grader.log") as process:
        yield process


@pytest_asyncio.fixture
async def door(grader: GraderProcess) -> AsyncIterator[Door]:
    async with canned_env_server(TOKEN) as (canned, _):
        canned.rows[QUERY] = ['{"ok":true}']
        canned.episodes["ep-paid"] = evidence(PAID)
        canned.episodes["ep-idle"] = evidence(START)
        yield grader, canned


def body(canned: CannedEnvServer, episode_id: str, **more):
    return {
        "request_id": f"{canned.address}/{episode_id}",
        "task_id": "shop/t",
        "task_hash": TASK_HASH,
        "episode": {"env_server": canned.address, "episode_id": episode_id},
        "final_reply": "It is paid.",
        **more,
    }


async def test_the_right_end_is_graded_one_with_everything_that_led_to_it(door: Door):
    grader, canned = door
    response = await grader.grade(body(canned, "ep-paid"))
    verdict = response.json()
    assert response.status_code == 200
    assert (verdict["status"], verdict["reward"]) == ("VERDICT_STATUS_GRADED", 1.0)
    assert [(c["name"], c["passed"]) for c in verdict["checks"]] == [
        ("end", True),
        ("two notes", True),
        ("words", True),
    ]
    assert verdict["diff"] == [
        {
            "table": "notes",
            "key_json": '{"id":8}',
            "op": "ROW_OP_INSERT",
            "before_json": "",
            "after_json": '{"account":1,"id":8,"text":"paid"}',
        }
    ]
    assert verdict["request_id"] == f"{canned.address}/ep-paid"
    assert verdict["task"] == {"task_id": "shop/t", "task_hash": TASK_HASH}
    assert len(verdict["checks_hash"]) == len(verdict["grader_hash"]) == 64
    assert verdict["final_state_hash"] == evidence(PAID).final_state_hash


async def test_the_wrong_end_is_graded_zero_and_says_so_in_full(door: Door):
    grader, canned = door
    verdict = (await grader.grade(body(canned, "ep-idle"))).json()
    assert (verdict["status"], verdict["reward"]) == ("VERDICT_STATUS_GRADED", 0.0)
    assert verdict["checks"][0]["passed"] is False
    assert '"text":"paid"' in verdict["checks"][0]["expected"]
    assert verdict["ungradable_reason"] == ""


async def test_the_right_end_with_the_wrong_words_is_graded_zero(door: Door):
    grader, canned = door
    verdict = (await grader.grade(body(canned, "ep-paid", final_reply="Bye."))).json()
    assert verdict["reward"] == 0.0


async def test_a_query_that_fails_leaves_no_reward(door: Door):
    grader, canned = door
    canned.rows.clear()
    verdict = (await grader.grade(body(canned, "ep-paid"))).json()
    assert verdict["status"] == "VERDICT_STATUS_UNGRADABLE"
    assert "reward" not in verdict
    assert verdict["ungradable_reason"].startswith("check 'two notes' cannot run: ")


async def test_evidence_that_contradicts_itself_leaves_no_reward(door: Door):
    grader, canned = door
    canned.episodes["ep-paid"] = replace(evidence(PAID), changes=())
    verdict = (await grader.grade(body(canned, "ep-paid"))).json()
    assert verdict["status"] == "VERDICT_STATUS_UNGRADABLE"
    assert "reward" not in verdict
    assert "diff has 0 changes" in verdict["ungradable_reason"]


async def test_a_stream_without_a_header_leaves_no_reward(door: Door):
    grader, canned = door
    canned.torn.add("ep-paid")
    verdict = (await grader.grade(body(canned, "ep-paid"))).json()
    assert verdict["status"] == "VERDICT_STATUS_UNGRADABLE"
    assert "reward" not in verdict


async def test_a_task_without_a_golden_snapshot_leaves_no_reward(door: Door):
    grader, canned = door
    canned.episodes["ep-u"] = replace(evidence(PAID), task_id="shop/u")
    verdict = (await grader.grade(body(canned, "ep-u", task_id="shop/u"))).json()
    assert verdict["status"] == "VERDICT_STATUS_UNGRADABLE"
    assert "golden snapshot" in verdict["ungradable_reason"]


async def test_the_same_request_id_gets_the_same_verdict_and_is_graded_once(door: Door):
    grader, canned = door
    first, second = await asyncio.gather(*(grader.grade(body(canned, "ep-paid")) for _ in range(2)))
    canned.episodes.clear()
    third = await grader.grade(body(canned, "ep-paid"))
    assert first.json() == second.json() == third.json()
    assert canned.reads == 1


async def test_a_request_id_may_not_name_another_request(door: Door):
    grader, canned = door
    await grader.grade(body(canned, "ep-paid"))
    same_id = body(canned, "ep-paid")["request_id"]
    response = await grader.grade(body(canned, "ep-idle", request_id=same_id))
    assert (response.status_code, response.json()["code"]) == (422, "ERROR_CODE_INVALID_ARGUMENT")


async def test_a_task_without_checks_has_no_verdict(door: Door):
    grader, canned = door
    response = await grader.grade(body(canned, "ep-paid", task_id="shop/none"))
    assert response.headers["content-type"] == "application/problem+json"
    assert (response.status_code, response.json()["code"]) == (409, "ERROR_CODE_NO_CHECKS")


async def test_an_episode_of_another_task_or_content_is_the_callers_mistake(door: Door):
    grader, canned = door
    other = await grader.grade(body(canned, "ep-paid", task_id="shop/u"))
    assert (other.status_code, "runs shop/t" in other.json()["detail"]) == (422, True)
    stale = await grader.grade(body(canned, "ep-paid", task_hash="0" * 64))
    assert (stale.status_code, "another content" in stale.json()["detail"]) == (422, True)


async def test_an_address_off_the_list_is_never_contacted(door: Door):
    grader, canned = door
    elsewhere = {"env_server": f"localhost:{canned.address.split(':')[1]}", "episode_id": "ep-paid"}
    response = await grader.grade(body(canned, "ep-paid", episode=elsewhere))
    assert (response.status_code, response.json()["retryable"]) == (422, False)
    assert canned.reads == 0


async def test_only_the_clients_token_opens_the_door(door: Door):
    grader, canned = door
    for token in ("wrong", TOKEN):
        response = await grader.grade(body(canned, "ep-paid"), token=token)
        assert response.status_code == 401
    unknown = await grader.grade({"nonsense": 1}, token="wrong")
    assert unknown.status_code == 401
    assert canned.reads == 0


async def test_a_malformed_body_names_each_mistake(door: Door):
    grader, canned = door
    response = await grader.grade(body(canned, "ep-paid", task_hash="xyz", extra=1))
    assert response.status_code == 422
    assert "task_hash: " in response.json()["detail"]
    assert "extra: " in response.json()["detail"]


async def test_a_dead_database_is_an_error_and_no_verdict(door: Door):
    grader, canned = door
    canned.broken.add("ep-paid")
    response = await grader.grade(body(canned, "ep-paid"))
    assert (response.status_code, response.json()["code"]) == (503, "ERROR_CODE_DATABASE")
    assert "status" in response.json() and "reward" not in response.json()
    canned.broken.clear()
    assert (await grader.grade(body(canned, "ep-paid"))).json()["reward"] == 1.0


async def test_an_unknown_episode_is_said_to_be_unknown(door: Door):
    grader, canned = door
    response = await grader.grade(body(canned, "ep-none"))
    assert (response.status_code, response.json()["code"]) == (404, "ERROR_CODE_UNKNOWN_EPISODE")


async def test_an_env_server_that_is_gone_is_a_retryable_error(tmp_path: Path):
    env = environment(write_domains(tmp_path), tmp_path, TOKEN, tmp_path / "ready.json")
    async with canned_env_server(TOKEN) as (canned, server):
        await server.stop(None)
        async with grader_process(env, tmp_path / "grader.log") as grader:
            response = await grader.grade(body(canned, "ep-paid"))
    assert (response.status_code, response.json()["code"]) == (502, "ERROR_CODE_GRADER")
    assert response.json()["retryable"] is True


async def test_a_refused_token_of_ours_is_the_operators_matter(tmp_path: Path):
    env = environment(write_domains(tmp_path), tmp_path, "another-token-of-16", tmp_path / "r.json")
    async with canned_env_server(TOKEN) as (canned, _):
        async with grader_process(env, tmp_path / "grader.log") as grader:
            response = await grader.grade(body(canned, "ep-paid"))
    assert (response.status_code, response.json()["code"]) == (500, "ERROR_CODE_CONFIG")
    assert "GRADER_EVIDENCE_TOKEN" in response.json()["hint"]


async def test_metrics_count_verdicts_and_checks(tmp_path: Path):
    domains = write_domains(tmp_path)
    golden = write_golden(tmp_path / "golden", domains)
    env = environment(domains, golden, TOKEN, tmp_path / "ready.json")
    async with canned_env_server(TOKEN) as (canned, _):
        canned.rows[QUERY] = ['{"ok":true}']
        canned.episodes["ep-paid"] = evidence(PAID)
        async with grader_process(env, tmp_path / "grader.log") as grader:
            await grader.grade(body(canned, "ep-paid"))
            text = (await grader.get("/metrics")).text
    assert 'envfarm_verdicts_total{domain="shop",reward="1",status="graded"} 1.0' in text
    assert 'envfarm_checks_total{kind="state",passed="true"} 1.0' in text
    assert 'envfarm_grade_seconds_count{input="episode"} 1.0' in text


async def test_a_clean_stop_is_exit_zero_and_leaves_no_ready_file(tmp_path: Path):
    ready = tmp_path / "ready.json"
    env = environment(write_domains(tmp_path), tmp_path, TOKEN, ready)
    async with grader_process(env, tmp_path / "grader.log") as grader:
        assert (await grader.get("/readyz")).json() == {"ready": True}
    assert grader.process.returncode == 0
    assert not ready.exists()
    assert TOKEN not in (tmp_path / "grader.log").read_text()


def start(env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "grader"], env=env, capture_output=True, text=True, timeout=60
    )


def test_missing_settings_are_named_in_one_line():
    ended = start({})
    assert ended.returncode == 1
    (line,) = ended.stderr.strip().splitlines()
    for name in ("DOMAINS_DIR", "GOLDEN_DIR", "CLIENT_TOKEN", "EVIDENCE_TOKEN", "ENV_SERVERS"):
        assert f"GRADER_{name}: " in line


def test_a_bad_check_file_stops_the_start_with_its_line(tmp_path: Path):
    domains = write_domains(tmp_path)
    path = domains / "shop/private/t.yaml"
    path.write_text(CHECKS.replace("kind: state", "kind: stat"))
    ended = start(environment(domains, tmp_path, TOKEN, tmp_path / "ready.json"))
    assert ended.returncode == 1
    assert f"{path}:4: " in ended.stderr
