"""One end state, three ways to hand it over: the verdict is the same, whatever the end was."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from pydantic import SecretStr

from grader.checkset import load_checkset
from grader.ingest import prove_tasks
from grader.settings import IngestSettings
from grader.verdict_wire import MEASURED
from tests.support import by_hand_database
from tests.support.env_server import EnvServer, running_env_server
from tests.support.given_postgres import given_postgres
from tests.support.grader_process import GraderProcess, environment, grader_process

DOMAINS = Path(__file__).parents[3] / "domains"
WORLD = DOMAINS / "orders/world"
TASKS = ("orders/refund-two-orders", "orders/refund-approval")
RIGHT = [
    ("issue_refund", {"order_id": "O-1018", "amount": 28.40, "reason": "damaged"}),
    ("issue_refund", {"order_id": "O-1019", "amount": 22.40, "reason": "wrong_item"}),
]
WRONG = [("issue_refund", {"order_id": "O-1014", "amount": 129, "reason": "damaged"})]
ENDS = {
    "right": ("orders/refund-two-orders", RIGHT, "Refunded O-1018 and O-1019."),
    "half done": ("orders/refund-two-orders", RIGHT[:1], "Refunded O-1018 and O-1019."),
    "nothing done": ("orders/refund-two-orders", [], "Refunded O-1018 and O-1019."),
    "wrong words": ("orders/refund-two-orders", RIGHT, "Bye."),
    "against the policy": ("orders/refund-approval", WRONG, "Refunded 129 for O-1014."),
}


@dataclass
class Place:
    server: EnvServer
    postgres: str
    grader: GraderProcess


@pytest.fixture(scope="module")
def server() -> Iterator[EnvServer]:
    with running_env_server(DOMAINS) as running:
        yield running


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with given_postgres() as dsn:
        by_hand_database.make_reader(dsn)
        yield dsn


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(
    server: EnvServer, postgres: str, tmp_path_factory: pytest.TempPathFactory
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
    env = environment(
        DOMAINS,
        config.golden_dir,
        server.grader_token,
        root / "ready.json",
        GRADER_STATE_DIR=str(root / "state"),
        GRADER_DSN_TARGETS_FILE=str(by_hand_database.targets_file(postgres, root)),
    )
    async with grader_process(env, root / "grader.log") as process:
        yield Place(server, postgres, process)


async def all_three(place: Place, name: str, database: str = "") -> list[dict[str, Any]]:
    """The verdicts on one end, by episode, by DSN and by tables."""
    task_id, calls, reply = ENDS[name]
    prefix = database or name
    async with place.server.client() as client:
        episode = await client.open(task_id)
        for tool, arguments in calls:
            assert not (await client.call(episode, tool, **arguments)).is_error
        await client.seal(episode)
        header, _, _ = await client.evidence(episode)
        names = [table.table for table in header.tables]
        _, _, rows = await client.evidence(episode, *names)
        asked = {
            "task_id": task_id,
            "task_hash": episode.task.ref.task_hash,
            "final_reply": reply,
        }
        reference = {"env_server": episode.env_server, "episode_id": episode.episode_id}
        by_episode = await graded(place, f"{prefix}/e", asked | {"episode": reference})
        await client.close(episode)
    database = database or f"shop_{list(ENDS).index(name)}"
    by_hand_database.make_database(place.postgres, database, WORLD, by_episode["diff"])
    dsn = by_hand_database.reader_dsn(place.postgres, database)
    by_dsn = await graded(place, f"{prefix}/d", asked | {"dsn": dsn})
    by_state = await graded(place, f"{prefix}/s", asked | {"state": rows})
    return [by_episode, by_dsn, by_state]


async def graded(place: Place, request_id: str, asked: dict[str, Any]) -> dict[str, Any]:
    answer = await place.grader.grade({"request_id": request_id, **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()


def said(verdict: dict[str, Any]) -> dict[str, Any]:
    """Everything but who asked, how long it took and where the state came from."""
    apart = {*MEASURED, "request_id", "verdict_id"}
    return {name: value for name, value in verdict.items() if name not in apart}


@pytest.mark.parametrize("name", ENDS)
async def test_all_three_inputs_give_the_same_verdict(place: Place, name: str):
    by_episode, by_dsn, by_state = await all_three(place, name)
    assert by_episode["status"] == "VERDICT_STATUS_GRADED"
    assert by_episode["reward"] == (1.0 if name == "right" else 0.0)
    assert said(by_dsn) == said(by_episode)
    assert said(by_state) == said(by_episode)
    assert [v["input"] for v in (by_episode, by_dsn, by_state)] == [
        "GRADE_INPUT_EPISODE",
        "GRADE_INPUT_DSN",
        "GRADE_INPUT_STATE",
    ]


async def untouched(place: Place) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """What to ask about the end in which nothing was done, and its rows."""
    async with place.server.client() as client:
        episode = await client.open("orders/refund-approval")
        await client.seal(episode)
        header, _, _ = await client.evidence(episode)
        _, _, rows = await client.evidence(episode, *[table.table for table in header.tables])
        await client.close(episode)
    asked = {
        "task_id": "orders/refund-approval",
        "task_hash": episode.task.ref.task_hash,
        "final_reply": "",
    }
    return asked, rows


async def test_rows_in_another_order_and_spelling_are_the_same_rows(place: Place):
    asked, rows = await untouched(place)
    spelled = {
        name: [dict(reversed(row.items())) for row in reversed(table)]
        for name, table in reversed(rows.items())
    }
    spelled["orders"][0]["placed_at"] = spelled["orders"][0]["placed_at"].replace("+00:00", "Z")
    first = await graded(place, "plain", asked | {"state": rows})
    second = await graded(place, "spelled", asked | {"state": spelled})
    assert first["diff"] == []
    assert said(second) == said(first)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda s: s.pop("orders"), "orders missing"),
        (lambda s: s.update(nothing=[]), "nothing unknown"),
        (lambda s: s["orders"][0].pop("total"), "no 'total'"),
        (lambda s: s["orders"][0].update(colour="red"), "unknown 'colour'"),
        (lambda s: s["orders"][0].update(total="much"), "invalid input syntax"),
        (lambda s: s["orders"].append(s["orders"][0]), "twice"),
        (lambda s: s["orders"].append({**s["orders"][0], "total": 1}), "duplicate key"),
        (lambda s: s["orders"][0].update(status="lost"), "check constraint"),
        (lambda s: s["orders"][0].update(ship_city="a\0b"), "orders"),
    ],
)
async def test_tables_that_cannot_be_the_world_are_refused_and_never_graded(
    place: Place, change: Any, complaint: str
):
    asked, rows = await untouched(place)
    change(rows)
    answer = await place.grader.grade({"request_id": complaint, **asked, "state": rows})
    assert answer.status_code == 422, answer.text
    assert complaint in answer.json()["detail"]
    assert "reward" not in answer.json()


async def test_hostile_rows_are_refused(place: Place):
    asked, rows = await untouched(place)
    body = json.dumps({"request_id": "hostile", **asked, "state": rows})
    first = json.dumps(rows["orders"][0])
    for evil in ('{"a":1e999999999}', '{"a":"\\ud800"}', "[" * 20000, "7", '{"a":1,"a":2}'):
        with_body = await place.grader.post_bytes("/v1/grade", body.replace(first, evil))
        assert with_body.status_code == 422, with_body.text


async def test_a_database_of_another_shape_has_no_reward(place: Place):
    asked, _ = await untouched(place)
    dsn = by_hand_database.make_database(place.postgres, "shop_altered", WORLD, [])
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("ALTER TABLE orders ADD COLUMN colour text")
    reader = by_hand_database.reader_dsn(place.postgres, "shop_altered")
    verdict = await graded(place, "altered", asked | {"dsn": reader})
    assert verdict["status"] == "VERDICT_STATUS_UNGRADABLE"
    assert "orders has other columns" in verdict["ungradable_reason"]
    assert "reward" not in verdict


async def test_a_policy_that_hides_rows_gives_no_verdict(place: Place):
    asked, _ = await untouched(place)
    dsn = by_hand_database.make_database(place.postgres, "shop_hidden", WORLD, [])
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
        conn.execute("CREATE POLICY few ON orders USING (order_id = 'O-1014')")
    reader = by_hand_database.reader_dsn(place.postgres, "shop_hidden")
    answer = await place.grader.grade({"request_id": "hidden", **asked, "dsn": reader})
    assert answer.status_code == 502
    assert "row-level security" in answer.json()["detail"]


async def test_a_function_that_shadows_ours_changes_no_verdict(place: Place):
    asked, _ = await untouched(place)
    dsn = by_hand_database.make_database(place.postgres, "shop_shadow", WORLD, [])
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE orders SET total = 1 WHERE order_id = 'O-1014'")
        conn.execute(
            "CREATE FUNCTION public.to_jsonb(public.orders) RETURNS jsonb RETURN '{}'::jsonb"
        )
    reader = by_hand_database.reader_dsn(place.postgres, "shop_shadow")
    verdict = await graded(place, "shadow", asked | {"dsn": reader})
    assert [json.loads(change["after_json"])["total"] for change in verdict["diff"]] == [1]


@pytest.mark.parametrize(
    "dsn",
    [
        "host=127.0.0.1 dbname=shop_0 user=outside_reader",
        "host={host} dbname=postgres user=outside_reader",
        "host={host} dbname=shop_0 user=postgres",
        "host={host} dbname=shop_0 user=outside_reader password=x",
        "host={host} dbname=shop_0 user=outside_reader options='-c search_path=evil'",
        "host={host} dbname=shop_0 user=outside_reader service=x",
        "host={host},{host} dbname=shop_0 user=outside_reader",
        "host={host} hostaddr=10.0.0.1 dbname=shop_0 user=outside_reader",
        "host={host} port=5433 dbname=shop_0 user=outside_reader",
        "postgresql:///shop_0?host={host}",
        "not a dsn",
    ],
)
async def test_a_dsn_that_is_not_allowed_to_the_letter_is_refused(place: Place, dsn: str):
    host = psycopg.conninfo.conninfo_to_dict(place.postgres)["host"]
    asked, _ = await untouched(place)
    sent = {"request_id": f"no {dsn}", **asked, "dsn": dsn.format(host=host)}
    answer = await place.grader.grade(sent)
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"].startswith("dsn: ")


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        (
            "CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
            " CREATE TRIGGER later BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION later()",
            "function later; trigger later on orders",
        ),
        ("CREATE RULE quiet AS ON DELETE TO orders DO INSTEAD NOTHING", "rule quiet on orders"),
        ("CREATE VIEW seen AS SELECT 1", "view seen"),
    ],
)
async def test_what_is_left_behind_in_a_database_costs_the_reward(
    place: Place, statement: str, named: str
):
    """Though every row is right."""
    by_episode, _, _ = await all_three(place, "right", f"shop_left_{len(named)}")
    database = f"shop_behind_{len(named)}"
    dsn = by_hand_database.make_database(place.postgres, database, WORLD, by_episode["diff"])
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(statement)
    task_id, _, reply = ENDS["right"]
    asked = {
        "task_id": task_id,
        "task_hash": by_episode["task"]["task_hash"],
        "final_reply": reply,
        "dsn": by_hand_database.reader_dsn(place.postgres, database),
    }
    verdict = await graded(place, database, asked)
    (failed,) = [check for check in verdict["checks"] if not check["passed"]]
    assert verdict["reward"] == 0.0
    assert (failed["kind"], failed["observed"]) == ("schema", named)
