"""What an episode promises, on every back end."""

import asyncio
import json

import pytest
from envfarm.errors import (
    BrokenWorld,
    DeadlineError,
    InvalidArgument,
    LeaseExpired,
    UnknownEpisode,
    UnknownTask,
    WrongState,
)
from envfarm.v1 import episode_pb2, evidence_pb2

from tests.support.env_server import EnvClient

EMMA = "shelf/lend-emma"
UTC = "+00:00"
SERIES = "generate_series(1, 100000)"


async def until(condition, seconds: float = 10.0):
    """Poll an async condition until it is true; fails after `seconds`."""
    async with asyncio.timeout(seconds):
        while not (value := await condition()):
            await asyncio.sleep(0.02)
    return value


async def has_begun(client: EnvClient) -> None:
    """What was sent before on this channel has reached the server."""
    await asyncio.sleep(0)
    await client.capacity()


async def final_state(client: EnvClient, episode) -> str:
    return (await client.seal(episode)).final_state_hash


async def test_an_open_hands_out_the_task_and_its_tools(client: EnvClient):
    episode = await client.open(EMMA)
    assert episode.task.ref.task_id == EMMA
    assert episode.task.opening == "Please lend Emma to me. I am reader R-1."
    assert "No" not in episode.task.opening and "two books" in episode.task.policy
    assert [tool.name for tool in episode.task.tools][:3] == [
        "find_book",
        "lend_book",
        "return_book",
    ]
    assert dict(episode.task.tags) == {
        "domain": "shelf",
        "failure_mode": "none",
        "split": "train",
        "workflow": "lend",
    }
    assert episode.world_now == "2026-03-02T09:00:00+00:00"
    schema = json.loads(episode.task.tools[1].input_schema_json)
    assert schema["required"] == ["book_id", "reader_id"]
    assert schema["additionalProperties"] is False


async def test_every_episode_starts_from_the_same_state(client: EnvClient):
    first, second = await client.open(EMMA), await client.open("shelf/ask-dune")
    assert first.initial_state_hash == second.initial_state_hash
    assert first.agent_token != second.agent_token
    assert await final_state(client, first) == first.initial_state_hash


async def test_equal_actions_lead_to_equal_states_and_observations(client: EnvClient):
    seen = []
    for _ in range(2):
        episode = await client.open(EMMA)
        answers = [
            await client.call(episode, "lend_book", book_id="B-1", reader_id="R-1"),
            await client.call(episode, "find_book", book_id="B-1"),
        ]
        seen.append(([a.content for a in answers], await final_state(client, episode)))
    assert seen[0] == seen[1]
    assert seen[0][1] != episode.initial_state_hash


async def test_a_write_shows_as_exactly_one_inserted_row(client: EnvClient):
    episode = await client.open(EMMA)
    result = await client.call(episode, "lend_book", book_id="B-1", reader_id="R-1")
    assert (result.content, result.is_error) == ('{"lent":"B-1"}', False)
    sealed = await client.seal(episode)
    header, changes, rows = await client.evidence(episode, "loans", "readers")
    assert header.final_state_hash == sealed.final_state_hash
    assert header.initial_state_hash == episode.initial_state_hash
    assert sealed.tool_calls == 1 and sealed.tool_seconds > 0
    assert [
        (c.table, c.key_json, c.op, c.before_json, json.loads(c.after_json)) for c in changes
    ] == [
        (
            "loans",
            '{"loan_id":2}',
            evidence_pb2.ROW_OP_INSERT,
            "",
            {
                "loan_id": 2,
                "book_id": "B-1",
                "reader_id": "R-1",
                "lent_at": f"2026-03-02T09:00:00{UTC}",
            },
        )
    ]
    assert [row["book_id"] for row in rows["loans"]] == ["B-2", "B-1"]
    # Key order is by bytes, as COLLATE "C" has it, on every back end.
    assert [row["reader_id"] for row in rows["readers"]] == ["R-1", "R-2", "r-3"]
    digests = {digest.table: digest for digest in header.tables}
    assert {name: d.rows for name, d in digests.items()} == {"books": 3, "loans": 2, "readers": 3}
    assert list(digests["loans"].key_columns) == ["loan_id"]


async def test_an_update_and_a_delete_carry_both_sides(client: EnvClient):
    episode = await client.open(EMMA)
    await client.call(episode, "return_book", book_id="B-2")
    await client.call(
        episode, "write_sql", query="UPDATE books SET price = 13.0000000000 WHERE book_id = 'B-1'"
    )
    await client.seal(episode)
    _, changes, _ = await client.evidence(episode)
    books, loans = changes
    assert loans.op == evidence_pb2.ROW_OP_DELETE and loans.after_json == ""
    assert json.loads(loans.before_json)["loan_id"] == 1
    assert books.op == evidence_pb2.ROW_OP_UPDATE
    assert json.loads(books.before_json)["price"] == 12.5
    assert '"price":13' in books.after_json


async def test_an_amount_written_with_another_scale_is_no_change(client: EnvClient):
    episode = await client.open(EMMA)
    await client.call(episode, "write_sql", query="UPDATE books SET price = price * 1.00")
    assert await final_state(client, episode) == episode.initial_state_hash


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("find_book", {"book_id": "B-9"}, "There is no book B-9."),
        ("find_book", {"book_id": 7}, "Bad arguments for find_book. book_id: "),
        ("find_book", {}, "Bad arguments for find_book. book_id: Field required"),
        ("find_book", {"book_id": "B-1", "x": 1}, "Bad arguments for find_book. x: "),
        ("find_book", {"book_id": "\x00"}, "The database refused: "),
        ("lend_book", {"book_id": "B-2", "reader_id": "R-1"}, "The database refused: duplicate"),
        ("lend_book", {"book_id": "B-1", "reader_id": "R-9"}, "The database refused: insert or"),
        ("burn_book", {}, "There is no tool named 'burn_book'."),
        ("misbehave", {"how": "crash"}, "The tool misbehave failed on these arguments."),
        ("misbehave", {"how": "odd_result"}, "The tool misbehave failed on these arguments."),
    ],
)
async def test_a_refused_call_is_an_observation_and_leaves_no_trace(
    client: EnvClient, tool: str, arguments: dict, sentence: str
):
    episode = await client.open(EMMA)
    result = await client.call(episode, tool, **arguments)
    assert result.is_error
    assert result.content.startswith(sentence)
    assert not (await client.call(episode, "find_book", book_id="B-1")).is_error
    assert await final_state(client, episode) == episode.initial_state_hash


@pytest.mark.parametrize("arguments", ["", "[]", "{", "null", '{"book_id": NaN}', '"x"'])
async def test_arguments_that_are_no_json_object_are_an_observation(client, arguments: str):
    episode = await client.open(EMMA)
    assert (await client.call_raw(episode, "find_book", arguments)).is_error


async def test_a_business_rule_undoes_what_the_call_had_written(client: EnvClient):
    episode = await client.open(EMMA)
    await client.call(episode, "return_book", book_id="B-2")
    for book in ("B-1", "B-2"):
        assert not (await client.call(episode, "lend_book", book_id=book, reader_id="R-1")).is_error
    refused = await client.call(episode, "lend_book", book_id="B-3", reader_id="R-1")
    assert refused.content == "R-1 would hold 3 books; two are allowed."
    await client.seal(episode)
    loans = await client.query(episode, "SELECT book_id FROM loans ORDER BY 1")
    assert loans == [{"book_id": "B-1"}, {"book_id": "B-2"}]


async def test_the_same_open_request_is_one_episode(client: EnvClient):
    first, second = await asyncio.gather(
        client.open(EMMA, request_id="twice"), client.open(EMMA, request_id="twice")
    )
    assert first == second
    assert await client.open(EMMA, request_id="twice") == first
    with pytest.raises(InvalidArgument, match="another open"):
        await client.open("shelf/ask-dune", request_id="twice")
    await client.close(first)
    with pytest.raises(WrongState, match="closed"):
        await client.open(EMMA, request_id="twice")


async def test_the_same_call_request_is_executed_once(client: EnvClient):
    episode = await client.open(EMMA)
    ask = {"request_id": "r1", "book_id": "B-1", "reader_id": "R-1"}
    answers = await asyncio.gather(*(client.call(episode, "lend_book", **ask) for _ in range(3)))
    assert {answer.content for answer in answers} == {'{"lent":"B-1"}'}
    assert await client.call(episode, "lend_book", **ask) == answers[0]
    with pytest.raises(InvalidArgument, match="another call"):
        await client.call(episode, "return_book", request_id="r1", book_id="B-1")
    assert (await client.seal(episode)).tool_calls == 1


async def test_calls_at_once_run_one_after_the_other(client: EnvClient):
    episode = await client.open(EMMA)
    query = "UPDATE readers SET name = name || 'x' WHERE reader_id = 'R-1'"
    await asyncio.gather(*(client.call(episode, "write_sql", query=query) for _ in range(8)))
    await client.seal(episode)
    rows = await client.query(episode, "SELECT name FROM readers WHERE reader_id = 'R-1'")
    assert rows == [{"name": "Ada" + "x" * 8}]


async def test_ids_and_leases_that_make_no_sense_are_refused(client: EnvClient):
    with pytest.raises(InvalidArgument, match="request_id"):
        await client.open(EMMA, request_id="")
    for lease in (-1.0, 1e9, float("nan"), float("inf")):
        with pytest.raises(InvalidArgument, match="lease_seconds"):
            await client.open(EMMA, lease_seconds=lease)
    with pytest.raises(UnknownTask, match="no task 'shelf/none'"):
        await client.open("shelf/none")
    with pytest.raises(UnknownTask, match="has hash"):
        await client.open(EMMA, task_hash="0" * 64)
    with pytest.raises(UnknownEpisode):
        await client.seal("ep-nobody")


async def test_sealing_stops_calls_and_twice_is_the_same_answer(client: EnvClient):
    episode = await client.open(EMMA)
    await client.call(episode, "lend_book", book_id="B-1", reader_id="R-1")
    first, second = await asyncio.gather(client.seal(episode), client.seal(episode))
    assert first == second
    with pytest.raises(WrongState, match="sealed, not running"):
        await client.call(episode, "find_book", book_id="B-1")


async def test_a_seal_waits_for_the_call_in_flight(client: EnvClient):
    episode = await client.open(EMMA)
    call = asyncio.create_task(client.call(episode, "misbehave", how="sleep", seconds=0.3))

    await has_begun(client)
    await client.seal(episode)
    assert not (await call).is_error
    rows = await client.query(episode, "SELECT name FROM readers WHERE reader_id = 'R-1'")
    assert rows == [{"name": "Ada!"}]


async def test_evidence_is_shut_before_the_seal(client: EnvClient):
    episode = await client.open(EMMA)
    with pytest.raises(WrongState, match="running, not sealed"):
        await client.evidence(episode)
    with pytest.raises(WrongState, match="running, not sealed"):
        await client.query(episode, "SELECT 1")


async def test_a_table_that_does_not_exist_is_refused(client: EnvClient):
    episode = await client.open(EMMA)
    await client.seal(episode)
    with pytest.raises(InvalidArgument, match="no table nothing"):
        await client.evidence(episode, "nothing")


async def test_large_evidence_comes_in_pieces_of_at_most_a_mebibyte(client: EnvClient):
    episode = await client.open(EMMA)
    query = (
        "INSERT INTO readers SELECT 'X-' || lpad(n::text, 5, '0'), repeat('x', 400)"
        " FROM generate_series(1, 6000) AS n"
    )
    assert not (await client.call(episode, "write_sql", query=query)).is_error
    await client.seal(episode)
    chunks = await client.chunks(episode, "readers")
    assert max(chunk.ByteSize() for chunk in chunks) <= (1 << 20) + 100_000
    assert len(chunks) >= 6
    _header, changes, rows = await client.evidence(episode, "readers")
    assert len(changes) == 6000 and len(rows["readers"]) == 6003
    assert rows["readers"][2]["reader_id"] == "X-00001"


async def test_closing_twice_is_fine_and_a_closed_episode_says_so(client: EnvClient):
    episode = await client.open(EMMA)
    assert await client.close(episode) == episode_pb2.EPISODE_STATE_CLOSED
    assert await client.close(episode) == episode_pb2.EPISODE_STATE_CLOSED
    with pytest.raises(WrongState, match="it was closed"):
        await client.call(episode, "find_book", book_id="B-1")


async def test_closing_ends_a_call_in_flight(client: EnvClient):
    episode = await client.open(EMMA)
    call = asyncio.create_task(client.call(episode, "misbehave", how="sleep", seconds=30))
    await has_begun(client)
    await client.close(episode)
    with pytest.raises(WrongState, match="closed"):
        await call


async def test_a_lease_that_nobody_renews_ends_the_episode(client: EnvClient):
    kept, dropped = await client.open(EMMA), await client.open(EMMA, lease_seconds=0.4)

    async def expired() -> bool:
        try:
            await client.call(dropped, "find_book", book_id="B-1")
        except LeaseExpired:
            return True
        return False

    await until(expired)
    assert await client.renew(kept, dropped, "ep-nobody") == [dropped.episode_id, "ep-nobody"]
    assert await client.close(dropped) == episode_pb2.EPISODE_STATE_FAILED


async def test_a_renewed_lease_outlives_its_length(client: EnvClient):
    episode = await client.open(EMMA, lease_seconds=0.6)
    loop = asyncio.get_running_loop()
    end = loop.time() + 1.5
    while loop.time() < end:
        assert await client.renew(episode) == []
        await asyncio.sleep(0.05)
    assert not (await client.call(episode, "find_book", book_id="B-1")).is_error


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("misbehave", {"how": "sleep", "seconds": 60}),
        ("read_sql", {"query": f"SELECT count(*) FROM {SERIES} a, {SERIES} b"}),
    ],
)
async def test_a_call_over_the_deadline_is_undone_and_not_repeated(client, tool, arguments):
    episode = await client.open(EMMA)
    for _ in range(2):
        with pytest.raises(DeadlineError, match="was undone"):
            await client.call(episode, tool, request_id="slow", **arguments)
    assert not (await client.call(episode, "find_book", book_id="B-1")).is_error
    sealed = await client.seal(episode)
    assert sealed.final_state_hash == episode.initial_state_hash
    assert sealed.tool_calls == 2
    assert 0.9 < sealed.tool_seconds < 10


async def test_a_tool_that_ends_its_own_transaction_ends_the_episode(client: EnvClient):
    episode = await client.open(EMMA)
    with pytest.raises(BrokenWorld, match="ended its own transaction"):
        await client.call(episode, "misbehave", how="commit")
    with pytest.raises(WrongState, match="ended its own transaction"):
        await client.seal(episode)
