"""The calls of docs/grader.md, taken from the page and run as they stand, on real parts."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.integration.grader.test_grade_door import QUERY, TOKEN, write_domains, write_golden
from tests.support.canned_env_server import canned_env_server
from tests.support.grader_process import CLIENT_TOKEN, environment, grader_process
from tests.support.shop_world import TASK_HASH, after, evidence

DOCS = Path(__file__).parents[3] / "docs"
CLIENT = DOCS / "grader-client"
PAID = after(
    notes=[
        {"id": 7, "account": 1, "text": "old"},
        {"id": 8, "account": 1, "text": "paid"},
    ]
)
NPM_SECONDS = 120


def example(language: str) -> str:
    (found,) = re.findall(
        rf"^```{language}\n(.*?)^```$", (DOCS / "grader.md").read_text(), re.DOTALL | re.MULTILINE
    )
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def variables(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, str]]:
    root = tmp_path_factory.mktemp("docs")
    domains = write_domains(root)
    golden = write_golden(root / "golden", domains)
    env = environment(domains, golden, TOKEN, root / "ready.json")
    async with (
        canned_env_server(TOKEN) as (canned, _),
        grader_process(env, root / "log") as grader,
    ):
        canned.rows[QUERY] = ['{"ok":true}']
        canned.episodes["ep-paid"] = evidence(PAID)
        yield {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(Path.home()),
            "GRADER_URL": grader.url,
            "GRADER_CLIENT_TOKEN": CLIENT_TOKEN,
            "TASK_ID": "shop/t",
            "TASK_HASH": TASK_HASH,
            "ENV_SERVER": canned.address,
            "EPISODE_ID": "ep-paid",
            "REPLY": "It is paid.",
        }


async def run(*command: str | Path, env: dict[str, str], cwd: Path | None = None) -> str:
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        env=env,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), NPM_SECONDS)
    assert process.returncode == 0, err.decode() + out.decode()
    return out.decode()


@pytest.mark.asyncio(loop_scope="module")
async def test_the_call_in_curl(variables: dict[str, str]):
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    verdict = json.loads(await run("bash", "-c", example("bash"), env=variables))
    assert (verdict["status"], verdict["reward"]) == ("VERDICT_STATUS_GRADED", 1.0)
    assert verdict["request_id"] == "curl-ep-paid"


@pytest.mark.asyncio(loop_scope="module")
async def test_the_call_in_python(variables: dict[str, str]):
    said = await run(sys.executable, "-c", example("python"), env=variables)
    assert said.split() == ["VERDICT_STATUS_GRADED", "1.0"]


@pytest.mark.prove
@pytest.mark.asyncio(loop_scope="module")
async def test_the_call_in_typescript_with_the_generated_client(
    variables: dict[str, str], tmp_path: Path
):
    if shutil.which("npm") is None:
        pytest.skip("there is no npm here")
    place = tmp_path / "client"
    shutil.copytree(CLIENT, place, ignore=shutil.ignore_patterns("node_modules", "build"))
    shutil.copy(DOCS / "grader-openapi.json", tmp_path)
    try:
        await run("npm", "ci", "--no-audit", "--no-fund", env=variables, cwd=place)
    except AssertionError as error:
        if re.search(r"ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN", str(error)):
            pytest.skip("no package registry of npm can be reached from here")
        raise
    committed = (place / "grader-api.d.ts").read_text()
    await run("npm", "run", "generate", env=variables, cwd=place)
    assert (place / "grader-api.d.ts").read_text() == committed, (
        "run `npm run generate` in docs/grader-client and commit it"
    )
    (place / "example.ts").write_text(example("ts"))
    await run("npm", "run", "build", env=variables, cwd=place)
    said = await run("node", "build/example.js", env=variables, cwd=place)
    assert said.split() == ["VERDICT_STATUS_GRADED", "1"]
