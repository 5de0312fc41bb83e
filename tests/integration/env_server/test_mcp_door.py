"""The agent's door as official clients of both protocol eras see it: answers, refusals, cancellation."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.env_server import EnvClient, EnvServer, running_env_server

EMMA = "shelf/lend-emma"
DEADLINE = 90.0
ENDLESS = (
    "WITH marked AS (UPDATE books SET title = title || '!' RETURNING 1) SELECT count(*) FROM marked,"
    " generate_series(1, 100000) a, generate_series(1, 100000) b"
)
ERAS = ("legacy", "2026-07-28")


@pytest.fixture(scope="module")
def server() -> Iterator[EnvServer]:
    with running_env_server(call_deadline_seconds=DEADLINE, ready_low=1, ready_high=2) as server:
        yield server


@pytest.fixture
async def client(server: EnvServer) -> AsyncIterator[EnvClient]:
    async with server.client() as client:
        yield client
        for episode_id in client.opened:
            await client.close(episode_id)


def web_of(token: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=DEADLINE)


async def is_free(client: EnvClient, episode) -> bool:
    """A call is answered long before the deadline of one that was cancelled, which left no trace."""
    begin = time.monotonic()
    book = await client.call(episode, "find_book", book_id="B-1")
    assert not book.is_error and "!" not in book.content
    return time.monotonic() - begin < DEADLINE / 2


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_comes_as_text_and_as_structure(client: EnvClient, era: str):
    episode = await client.open(EMMA)
    async with web_of(episode.agent_token) as web:
        transport = streamable_http_client(episode.mcp_url, http_client=web)
        async with Client(transport, mode=era) as agent:
            lent = await agent.call_tool("lend_book", {"book_id": "B-1", "reader_id": "R-1"})
            (text,) = lent.model_dump()["content"]
            assert lent.structured_content == {"lent": "B-1"} == json.loads(text["text"])
            refused = await agent.call_tool("find_book", {"book_id": "B-9"})
            assert refused.is_error and refused.structured_content is None


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_cancels_frees_its_episode(client: EnvClient, era: str):
    episode = await client.open(EMMA)
    async with web_of(episode.agent_token) as web:
        transport = streamable_http_client(episode.mcp_url, http_client=web)
        async with Client(transport, mode=era) as agent:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await agent.call_tool("write_sql", {"query": ENDLESS})
            assert await is_free(client, episode)
            again = await agent.call_tool("find_book", {"book_id": "B-1"})
            assert not again.is_error
    assert (await client.seal(episode)).final_state_hash == episode.initial_state_hash


def call_body(request_id: int, query: str) -> dict:
    params = {"name": "write_sql", "arguments": {"query": query}}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


async def test_a_client_that_hangs_up_frees_its_episode(client: EnvClient):
    episode = await client.open(EMMA)
    headers = {"Accept": "application/json, text/event-stream"}
    async with web_of(episode.agent_token) as web:
        with pytest.raises(httpx2.ReadTimeout):
            await web.post(
                episode.mcp_url, json=call_body(1, ENDLESS), headers=headers, timeout=0.5
            )
    assert await is_free(client, episode)


async def test_a_notification_of_a_cancelled_request_frees_its_episode(client: EnvClient):
    episode = await client.open(EMMA)
    headers = {"Accept": "application/json, text/event-stream"}
    notice = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 7, "reason": "enough"},
    }
    async with web_of(episode.agent_token) as web:
        running = asyncio.create_task(
            web.post(episode.mcp_url, json=call_body(7, ENDLESS), headers=headers)
        )
        begin = time.monotonic()
        while not running.done():
            # The call may not have begun when the first notice comes.
            said = await web.post(episode.mcp_url, json=notice, headers=headers)
            assert said.status_code == 202
            assert time.monotonic() - begin < DEADLINE / 2
            await asyncio.wait({running}, timeout=0.05)
        assert "error" in running.result().json()
    assert await is_free(client, episode)
