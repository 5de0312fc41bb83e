"""The official TypeScript client, from npm, against an episode's door, in both protocol eras."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.env_server import running_env_server

CLIENT = "@modelcontextprotocol/client@2.4.0"
SCRIPT = Path(__file__).parents[1] / "support" / "mcp_client.mjs"
DEADLINE = 90.0
ENDLESS = (
    "WITH marked AS (UPDATE books SET title = title || '!' RETURNING 1) SELECT count(*) FROM marked,"
    " generate_series(1, 100000) a, generate_series(1, 100000) b"
)


def installed(folder: Path) -> Path:
    """The script beside its client; skips where there is no npm or no registry."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("there is no node with npm")
    shutil.copy(SCRIPT, folder)
    done = subprocess.run(
        [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", CLIENT],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode:
        pytest.skip(f"npm cannot install {CLIENT}: {done.stderr.strip().splitlines()[-1]}")
    return folder / SCRIPT.name


@pytest.mark.prove
@pytest.mark.timeout(1200)
async def test_the_typescript_client_is_served_in_both_eras(tmp_path: Path):
    script = await asyncio.to_thread(installed, tmp_path)
    with running_env_server(call_deadline_seconds=DEADLINE) as server:
        for era, protocol in (("legacy", "2025"), ("2026-07-28", "2026-07-28")):
            async with server.client() as client:
                episode = await client.open("shelf/lend-emma")
                process = await asyncio.create_subprocess_exec(
                    *("node", str(script), episode.mcp_url, episode.agent_token, era, ENDLESS),
                    stdout=asyncio.subprocess.PIPE,
                )
                told, _ = await asyncio.wait_for(process.communicate(), 300)
                assert process.returncode == 0
                seen = json.loads(told)
                assert seen["protocol"].startswith(protocol)
                assert {tool["name"] for tool in seen["tools"]} == {
                    tool.name for tool in episode.task.tools
                }
                assert seen["lent"]["structuredContent"] == {"lent": "B-1"}
                assert seen["refused"]["isError"]
                assert seen["cancelled"] == "cancelled"
                assert "!" not in seen["after"]["content"][0]["text"]
                assert seen["after_seconds"] < DEADLINE / 2
                await client.close(episode)
