"""Evidence of kind `files`, on a real env-server and a real grader: what an episode's folder holds is
judged, kept and told like the tables beside it."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from envfarm.canonical import bytes_hash
from envfarm.errors import EvidenceError
from pydantic import SecretStr

from grader.checkset import load_checkset
from grader.ingest import prove_tasks
from grader.settings import IngestSettings
from grader.verdict_wire import MEASURED
from tests.support.env_server import EnvClient, EnvServer, running_env_server
from tests.support.grader_process import GraderProcess, environment, grader_process

DOMAINS = Path(__file__).parents[2] / "support/with_files"
TASKS = ("binder/answer-ada", "binder/report")
ADA = ("write_file", {"path": "letters/ada.txt", "text": "Dear Ada, it is done."})
SENT = ("mark_sent", {"letter_id": "L-1"})
RIGHT = [ADA, SENT]
ENDS: dict[str, tuple[list[tuple[str, dict[str, str]]], float]] = {
    "right": (RIGHT, 1.0),
    "nothing done": ([], 0.0),
    "no letter": ([SENT], 0.0),
    "one space more": (
        [("write_file", {"path": "letters/ada.txt", "text": "Dear Ada, it is  done."}), SENT],
        0.0,
    ),
    "a line end more": (
        [("write_file", {"path": "letters/ada.txt", "text": "Dear Ada, it is done.\n"}), SENT],
        0.0,
    ),
    "another name": (
        [("write_file", {"path": "letters/ada.TXT", "text": "Dear Ada, it is done."}), SENT],
        0.0,
    ),
    "a file more": ([*RIGHT, ("write_file", {"path": "notes.txt", "text": ""})], 0.0),
    "a binary file more": (
        [*RIGHT, ("write_binary", {"path": "x.bin", "hexadecimal": "00ff"})],
        0.0,
    ),
    "the template overwritten": (
        [*RIGHT, ("write_file", {"path": "templates/greeting.txt", "text": "Hi {name},\n"})],
        0.0,
    ),
    "the template deleted": ([*RIGHT, ("delete_file", {"path": "templates/greeting.txt"})], 0.0),
    "deleted and written again": (
        [
            *RIGHT,
            ("delete_file", {"path": "letters/ada.txt"}),
            ("write_file", {"path": "letters/ada.txt", "text": "Dear Ada, it is done."}),
        ],
        1.0,
    ),
    "a file that came and went": (
        [
            *RIGHT,
            ("write_file", {"path": "notes.txt", "text": "x"}),
            ("delete_file", {"path": "notes.txt"}),
        ],
        1.0,
    ),
}


@dataclass
class Place:
    server: EnvServer
    grader: GraderProcess
    report: Any


@pytest.fixture(scope="module")
def server() -> Iterator[EnvServer]:
    with running_env_server(DOMAINS) as running:
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
    )
    report = await prove_tasks(load_checkset(DOMAINS), config, TASKS, lambda line: None)
    assert report.failures == []
    targets = root / "targets.yaml"
    targets.write_text("targets: [{host: 192.0.2.1, databases: ['*'], user: reader}]")
    env = environment(
        DOMAINS,
        config.golden_dir,
        server.grader_token,
        root / "ready.json",
        GRADER_STATE_DIR=str(root / "state"),
        GRADER_DSN_TARGETS_FILE=str(targets),
    )
    async with grader_process(env, root / "grader.log") as process:
        yield Place(server, process, report)


async def sealed(
    client: EnvClient, calls: list[tuple[str, dict[str, str]]], task: str = "answer-ada"
) -> tuple[Any, dict[str, Any], dict[str, list[Any]]]:
    """A sealed episode, what a grade request of it says, and all of its rows."""
    episode = await client.open(f"binder/{task}")
    for tool, arguments in calls:
        result = await client.call(episode, tool, **arguments)
        assert not result.is_error, result.content
    await client.seal(episode)
    header, _, _ = await client.evidence(episode)
    _, _, rows = await client.evidence(episode, *(table.table for table in header.tables))
    asked = {
        "task_id": f"binder/{task}",
        "task_hash": episode.task.ref.task_hash,
        "final_reply": "I wrote to Ada.",
    }
    return episode, asked, rows


def reference(episode: Any) -> dict[str, str]:
    return {"env_server": episode.env_server, "episode_id": episode.episode_id}


def said(verdict: dict[str, Any]) -> dict[str, Any]:
    apart = {*MEASURED, "request_id", "verdict_id"}
    return {name: value for name, value in verdict.items() if name not in apart}


def test_tasks_about_files_prove_themselves(place: Place):
    assert (place.report.tasks, place.report.passed) == (2, 2)
    assert place.report.mutants == place.report.mutants_killed >= 6


@pytest.mark.parametrize("name", ENDS)
async def test_a_folder_is_judged_by_reference_and_by_tables_alike(place: Place, name: str):
    calls, reward = ENDS[name]
    async with place.server.client() as client:
        episode, asked, rows = await sealed(client, calls)
        by_episode = (
            await place.grader.grade(
                {"request_id": f"{name}/e", "episode": reference(episode), **asked}
            )
        ).json()
        await client.close(episode)
    by_tables = (
        await place.grader.grade({"request_id": f"{name}/s", "state": rows, **asked})
    ).json()
    assert by_episode["reward"] == reward
    assert said(by_episode) == said(by_tables)
    kept = await place.grader.post(
        "/v1/regrade", {"verdict_id": by_episode["verdict_id"], "checks": "original"}
    )
    assert kept.json() == by_episode


async def test_the_diff_shows_each_file_with_its_text_and_its_hash(place: Place):
    async with place.server.client() as client:
        episode, asked, _ = await sealed(client, RIGHT)
        verdict = (
            await place.grader.grade({"request_id": "diff", "episode": reference(episode), **asked})
        ).json()
        await client.close(episode)
    change = next(change for change in verdict["diff"] if change["table"] == "episode_files")
    assert json.loads(change["key_json"]) == {"path": "letters/ada.txt"}
    text = "Dear Ada, it is done."
    assert json.loads(change["after_json"]) == {
        "path": "letters/ada.txt",
        "bytes": len(text),
        "sha256": bytes_hash(text.encode()),
        "text": text,
    }


async def test_json_in_a_file_may_be_written_in_another_way_where_that_is_declared(place: Place):
    async with place.server.client() as client:
        for text, reward in (
            ('{"clients":["Ada","Bo"],   "open":2}', 1.0),
            ('{"clients":["Bo","Ada"],"open":2}', 0.0),
            ('{"clients":["Ada","Bo"],"open":2', 0.0),
        ):
            calls = [("write_file", {"path": "report.json", "text": text})]
            episode, asked, _ = await sealed(client, calls, "report")
            answer = await place.grader.grade(
                {"request_id": text, "episode": reference(episode), **asked}
            )
            assert answer.json()["reward"] == reward, answer.text
            await client.close(episode)


async def test_the_schema_tells_how_files_are_sent(place: Place):
    schema = (await place.grader.get("/v1/tasks/binder/report/schema")).json()
    files = schema["tables"]["episode_files"]
    assert (files["key"], files["initial_rows"]) == (["path"], 2)
    assert files["columns"]["text"] == {"type": "text", "nullable": True}


async def test_a_database_alone_is_not_the_state_of_such_a_world(place: Place):
    async with place.server.client() as client:
        episode, asked, _ = await sealed(client, [])
        await client.close(episode)
    dsn = "postgresql://reader@192.0.2.1/x"
    answer = await place.grader.grade({"request_id": "dsn", "dsn": dsn, **asked})
    assert (answer.status_code, answer.json()["code"]) == (422, "ERROR_CODE_INVALID_ARGUMENT")
    assert "episode_files" in answer.json()["detail"]


def row(path: str, text: str | None = "x", **more: Any) -> dict[str, Any]:
    data = (text or "").encode(errors="replace")
    known = {"path": path, "bytes": len(data), "sha256": bytes_hash(data), "text": text}
    return known | more


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([row("../up")], "no relative path"),
        ([row("/etc/passwd")], "no relative path"),
        ([row("a//b")], "no relative path"),
        ([row("a/.")], "no relative path"),
        ([row("a\u0430")], "no relative path"),
        ([row("a\n")], "no relative path"),
        ([row("a" * 201)], "no relative path"),
        ([row("a"), row("a", "y")], "there twice"),
        ([row("a"), row("a/b")], "inside another file"),
        ([row("a", bytes=7)], "another size or hash"),
        ([row("a", sha256="0" * 64)], "another size or hash"),
        ([row("a", sha256="x")], "sha256"),
        ([row("a", bytes=-1)], "bytes"),
        ([row("a", bytes="1")], "bytes"),
        ([row("a") | {"text": 5}], "text"),
        ([row("a", "\ud800")], "truncated"),
        ([row("a", "x\0")], "null"),
        ([{"path": "a"}], "no 'bytes'"),
        ([row("a", owner="me")], "unknown 'owner'"),
    ],
)
async def test_rows_that_no_folder_can_hold_are_refused(
    place: Place, rows: list[dict[str, Any]], fault: str
):
    async with place.server.client() as client:
        episode, asked, state = await sealed(client, [])
        await client.close(episode)
    asked |= {
        "request_id": bytes_hash(repr(rows).encode()),
        "state": {**state, "episode_files": rows},
    }
    answer = await place.grader.post_bytes("/v1/grade", json.dumps(asked))
    assert answer.status_code == 422, answer.text
    assert fault in answer.json()["detail"]


async def test_what_a_refused_call_wrote_is_not_there(place: Place):
    async with place.server.client() as client:
        episode = await client.open("binder/answer-ada")
        for tool in ("write_and_refuse", "write_while_reading"):
            assert (await client.call(episode, tool, path="x.txt")).is_error
        listed = await client.call(episode, "list_files")
        assert json.loads(listed.content) == ["letters/cy.txt", "templates/greeting.txt"]
        assert (await client.seal(episode)).final_state_hash == episode.initial_state_hash
        await client.close(episode)


@pytest.mark.parametrize(
    "path", ["../x", "/x", "a/../x", "a//x", "", ".", "a/", "x\0", "x\u202e", "a/b/c/d/e/f/g/h/i"]
)
async def test_no_path_leaves_the_folder(place: Place, path: str):
    async with place.server.client() as client:
        episode = await client.open("binder/answer-ada")
        assert (await client.call(episode, "write_file", path=path, text="x")).is_error
        assert (await client.call(episode, "read_file", path=path)).is_error
        await client.close(episode)


async def test_a_folder_has_limits_that_a_call_can_read_and_not_pass(place: Place):
    async with place.server.client() as client:
        episode = await client.open("binder/answer-ada")
        told = await client.call(episode, "write_file", path="big.txt", text="x" * 4000)
        assert told.is_error and "4000 bytes at most" in told.content
        for number in range(4):
            assert not (
                await client.call(episode, "write_file", path=f"{number}.txt", text="x")
            ).is_error
        told = await client.call(episode, "write_file", path="5.txt", text="x")
        assert told.is_error and "6 files at most" in told.content
        told = await client.call(episode, "write_file", path="0.txt/x", text="x")
        assert told.is_error and "both a file and a folder" in told.content
        await client.close(episode)


def folder_of(server: EnvServer, episode_id: str) -> Path:
    state = next(server.log_file.parent.rglob(f"files-*/{episode_id}"))
    assert state.is_dir()
    return state


@pytest.mark.parametrize("how", ["changed", "added", "removed", "link", "pipe"])
async def test_a_folder_that_somebody_else_touched_is_no_evidence(place: Place, how: str):
    async with place.server.client() as client:
        episode = await client.open("binder/answer-ada")
        folder = folder_of(place.server, episode.episode_id)
        match how:
            case "changed":
                (folder / "letters/cy.txt").write_text("Dear Cy, yes.\n")
            case "added":
                (folder / "letters/ada.txt").write_text("Dear Ada, it is done.")
            case "removed":
                (folder / "letters/cy.txt").unlink()
            case "link":
                (folder / "letters/ada.txt").symlink_to("cy.txt")
            case _:
                os.mkfifo(folder / "letters/ada.txt")
        with pytest.raises(EvidenceError):
            await client.seal(episode)
    assert not await gone(folder)


async def gone(folder: Path) -> bool:
    """Whether the folder is still there after its episode's end."""
    for _ in range(200):
        if not folder.exists():
            return False
        await asyncio.sleep(0.05)
    return True
