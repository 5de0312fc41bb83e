"""Three tokens, three scopes; the agent's MCP door; the grader's read-only query; hostile SQL."""

import json

import grpc
import httpx2
import pytest
from envfarm.errors import (
    DatabaseError,
    DeadlineError,
    EnvfarmError,
    InvalidArgument,
    Unauthenticated,
    WrongScope,
    from_rpc,
)
from envfarm.v1 import env_service_pb2 as pb
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.env_server import SHELF, EnvClient, EnvServer

EMMA = "shelf/lend-emma"

INFRASTRUCTURE_RPCS = {
    "ListTasks": pb.ListTasksRequest(),
    "OpenEpisode": pb.OpenEpisodeRequest(),
    "RenewLease": pb.RenewLeaseRequest(),
    "CallTool": pb.CallToolRequest(),
    "SealEpisode": pb.SealEpisodeRequest(),
    "CloseEpisode": pb.CloseEpisodeRequest(),
    "GetCapacity": pb.GetCapacityRequest(),
}
GRADER_RPCS = {
    "ReadEvidence": pb.ReadEvidenceRequest(),
    "RunReadOnly": pb.RunReadOnlyRequest(),
    "DescribeWorld": pb.DescribeWorldRequest(),
}
RPCS = INFRASTRUCTURE_RPCS | GRADER_RPCS

BULKY = "SELECT count(*) FROM generate_series(1, 100000000000)"
SLOW = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b"


async def refusal(client: EnvClient, rpc: str, metadata) -> EnvfarmError | None:
    """What the door answers, or None when it lets the request in."""
    answer = getattr(client.stub, rpc)(RPCS[rpc], metadata=metadata)
    try:
        if rpc == "ReadEvidence":
            async for _ in answer:
                pass
        else:
            await answer
    except grpc.RpcError as error:
        found = from_rpc(error, DatabaseError)
        if isinstance(found, Unauthenticated | WrongScope):
            return found
    return None


@pytest.mark.parametrize("rpc", RPCS)
async def test_each_rpc_opens_to_one_token_only(client: EnvClient, rpc: str):
    episode = await client.open(EMMA)
    agent = [("authorization", f"Bearer {episode.agent_token}")]
    right, wrong = client.infra, client.grader
    if rpc in GRADER_RPCS:
        right, wrong = wrong, right
    assert await refusal(client, rpc, right) is None
    assert isinstance(await refusal(client, rpc, wrong), WrongScope)
    assert isinstance(await refusal(client, rpc, agent), WrongScope)
    assert isinstance(await refusal(client, rpc, []), Unauthenticated)
    for bad in ("Bearer nobody", "Basic abc", "Bearer "):
        assert isinstance(await refusal(client, rpc, [("authorization", bad)]), Unauthenticated)


def http_client(token: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_an_agent_lists_and_calls_its_tools_over_mcp(client: EnvClient, mode: str):
    episode, other = await client.open(EMMA), await client.open(EMMA)
    async with http_client(episode.agent_token) as web:
        transport = streamable_http_client(episode.mcp_url, http_client=web)
        async with Client(transport, mode=mode) as agent:
            tools = {tool.name: tool for tool in (await agent.list_tools()).tools}
            assert set(tools) == {tool.name for tool in episode.task.tools}
            assert tools["find_book"].description == "Show a book and who has it."
            assert tools["find_book"].input_schema == json.loads(
                episode.task.tools[0].input_schema_json
            )
            lent = await agent.call_tool("lend_book", {"book_id": "B-1", "reader_id": "R-1"})
            assert (lent.content[0].text, lent.is_error) == ('{"lent":"B-1"}', False)
            refused = await agent.call_tool("find_book", {"book_id": "B-9"})
            assert (refused.content[0].text, refused.is_error) == ("There is no book B-9.", True)
            unknown = await agent.call_tool("SealEpisode", {})
            assert unknown.is_error
    await client.seal(episode)
    loans = await client.query(episode, "SELECT count(*) AS n FROM loans")
    assert loans == [{"n": 2}]
    # The other episode saw nothing of it.
    assert (await client.seal(other)).final_state_hash == other.initial_state_hash


async def test_the_mcp_door_takes_a_live_episodes_token_and_no_other(
    server: EnvServer, client: EnvClient
):
    episode = await client.open(EMMA)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}

    async def status(token: str) -> int:
        async with http_client(token) as web:
            return (await web.post(episode.mcp_url, json=body, headers=accept)).status_code

    assert await status(episode.agent_token) == 200
    assert await status(server.infra_token) == 403
    assert await status(server.grader_token) == 403
    assert await status("nobody") == 401
    async with httpx2.AsyncClient() as web:
        assert (await web.post(episode.mcp_url, json=body, headers=accept)).status_code == 401
    await client.close(episode)
    assert await status(episode.agent_token) == 401


async def test_health_and_metrics_need_no_token(server: EnvServer, client: EnvClient):
    episode = await client.open(EMMA)
    await client.call(episode, "find_book", book_id="B-1")
    async with httpx2.AsyncClient(base_url=server.http) as web:
        assert (await web.get("/readyz")).json() == {"ready": True}
        text = (await web.get("/metrics")).text
    assert 'envfarm_tool_seconds_count{outcome="ok",tool="find_book",world="shelf"}' in text
    assert episode.agent_token not in text and episode.episode_id not in text


async def test_a_grader_query_gives_columns_and_rows_in_its_order(client: EnvClient):
    episode = await client.open(EMMA)
    await client.seal(episode)
    request = pb.RunReadOnlyRequest(
        episode_id=episode.episode_id,
        query="SELECT title, price, '100%' AS share FROM books ORDER BY price DESC -- dearest first",
    )
    answer = await client.stub.RunReadOnly(request, metadata=client.grader)
    assert list(answer.columns) == ["title", "price", "share"]
    assert [json.loads(row)["title"] for row in answer.rows_json] == ["Emma", "Dune", "Äpfel"]
    empty = await client.query(episode, "SELECT * FROM books WHERE false;")
    assert empty == []


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        ("DELETE FROM loans", InvalidArgument, "refused"),
        ("WITH x AS (DELETE FROM loans RETURNING 1) SELECT * FROM x", InvalidArgument, "refused"),
        ("SELECT 1) q; COMMIT; DELETE FROM loans; --", InvalidArgument, "refused"),
        ("SELECT * FROM pg_authid", InvalidArgument, "permission denied"),
        ("SELECT pg_read_file('/etc/passwd')", InvalidArgument, "permission denied"),
        ("SELECT set_config('role', 'postgres', false)", InvalidArgument, "permission denied"),
        ("SELECT 1 AS a, 2 AS a", InvalidArgument, "twice|refused"),
        ("SELECT generate_series(1, 1001)", InvalidArgument, "more than 1000 rows"),
        ("SELECT nonsense", InvalidArgument, 'column "nonsense" does not exist'),
        ("", InvalidArgument, "refused"),
        (SLOW, DeadlineError, "longer than 2 s"),
        (BULKY, (InvalidArgument, DeadlineError), "temporary file size|longer than 2 s"),
    ],
)
async def test_a_grader_query_can_only_read_and_only_for_two_seconds(
    client: EnvClient, query: str, error: type[EnvfarmError], words: str
):
    episode = await client.open(EMMA)
    sealed = await client.seal(episode)
    with pytest.raises(error, match=words):
        await client.query(episode, query)
    assert (await client.evidence(episode))[0].final_state_hash == sealed.final_state_hash


HOSTILE = [
    "COMMIT",
    "SELECT 1; COMMIT",
    "/* */ -- x\n ROLLBACK",
    "BEGIN",
    "TRUNCATE loans",
    "DROP TABLE loans",
    "CREATE TABLE mine (a int)",
    "CREATE TEMP TABLE mine (a int)",
    "SELECT 1 AS a INTO mine",
    "ALTER ROLE CURRENT_USER PASSWORD 'x'",
    "ALTER TABLE loans DISABLE TRIGGER ALL",
    "SET ROLE postgres",
    "SET session_replication_role = replica",
    "SELECT set_config('statement_timeout', '1', false)",
    "COPY books TO PROGRAM 'id'",
    "DO $$ BEGIN COMMIT; END $$",
    "LISTEN x",
    "SELECT pg_notify('x', 'y')",
    "SELECT pg_sleep(5)",
    "SELECT pg_advisory_lock(1)",
    "SELECT lo_create(0)",
    "SELECT pg_terminate_backend(pg_backend_pid())",
    "SELECT pg_read_file('PG_VERSION')",
    "SELECT setval('loans_loan_id_seq', 100)",
    "SELECT * FROM pg_shadow",
    "SELECT pg_logical_emit_message(false, 'a', 'b')",
]


@pytest.mark.parametrize("query", HOSTILE)
async def test_hostile_sql_is_an_observation_and_changes_nothing(client: EnvClient, query: str):
    episode = await client.open(EMMA)
    for tool in ("read_sql", "write_sql"):
        assert (await client.call(episode, tool, query=query)).is_error, tool
    assert not (await client.call(episode, "find_book", book_id="B-1")).is_error
    assert (await client.seal(episode)).final_state_hash == episode.initial_state_hash


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM loans",
        "WITH x AS (DELETE FROM loans RETURNING 1) SELECT * FROM x",
        "SELECT nextval('loans_loan_id_seq')",
        "SELECT 1 FROM books FOR UPDATE",
    ],
)
async def test_a_read_tool_cannot_write(client: EnvClient, query: str):
    episode = await client.open(EMMA)
    result = await client.call(episode, "read_sql", query=query)
    assert result.is_error and "read-only transaction" in result.content
    assert (await client.seal(episode)).final_state_hash == episode.initial_state_hash


async def test_a_grader_learns_the_schema_and_the_clock_of_a_world(server: EnvServer):
    asked = pb.DescribeWorldRequest(task_id=EMMA)
    async with server.client() as client:
        told = await client.stub.DescribeWorld(asked, metadata=client.grader)
    assert told.world.world_id == "shelf"
    assert told.schema_sql == (SHELF / "shelf/world/schema.sql").read_text()
    assert told.world_now.startswith("20")
