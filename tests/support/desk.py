"""Attempts on the desk world, graded by the grader and by the slow grader, on a real env-server."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml
from pydantic import SecretStr

from grader.check_run import CheckRunner
from grader.checkset import Checkset, load_checkset
from grader.evidence_client import EpisodeState, EvidenceClient
from grader.golden import GoldenStore
from grader.grading import Attempt, Graded, grade
from grader.ingest import prove_tasks
from grader.judge.judge import Judge
from grader.sandbox.sandbox import Sandbox
from grader.settings import IngestSettings
from tests.support import slow_grader
from tests.support.env_server import EnvClient, EnvServer
from tests.support.judge_server import judge_server, quoted_text

DOMAINS = Path(__file__).parent / "adversary"
PRIMARY_KEYS = {
    "clients": ["client_id"],
    "claims": ["claim_id"],
    "notes": ["note_id"],
    "links": ["claim_id", "other_id"],
    "visits": ["visit_id"],
    "audit": ["audit_id"],
    "scratch": ["place"],
}
_DUMP = " UNION ALL ".join(
    f"SELECT '{table}' AS name, to_jsonb(t) AS content FROM {table} t" for table in PRIMARY_KEYS
)


def judge_says(text: str) -> str:
    """The stand-in judge's whole understanding of kindness."""
    return "yes" if "i am sorry" in text.casefold() else "no"


@dataclass(frozen=True)
class Both:
    """One end state, judged twice."""

    graded: Graded
    slow: bool
    refusals: list[str]


@dataclass
class Desk:
    server: EnvServer
    client: EnvClient
    source: EvidenceClient
    checkset: Checkset
    store: GoldenStore
    runner: CheckRunner
    specs: dict[str, dict[str, Any]]
    initial: slow_grader.Tables
    golden: dict[str, slow_grader.Tables]

    def golden_statements(self, task: str) -> list[str]:
        return [a["arguments"]["statement"] for a in self.specs[task]["golden"]["actions"]]

    def golden_reply(self, task: str) -> str:
        return self.specs[task]["golden"]["reply"]

    async def attempt(self, task: str, statements: list[str], reply: str) -> Both:
        """Run, seal, grade twice, close."""
        episode, refusals = await _run(self.client, task, statements)
        try:
            attempt = Attempt(
                task_id=f"desk/{task}",
                task_hash=episode.task.ref.task_hash,
                final_reply=reply,
            )
            checks = self.checkset.find(attempt.task_id)
            state = EpisodeState(self.source, f"dns:///{self.server.grpc}", episode.episode_id)
            graded = await grade(attempt, checks, self.store, state, self.runner)
            final = await _dump(self.client, episode)
            answers = {
                query: exact(await self.client.query(episode, query))
                for query in _queries(self.specs[task])
            }
        finally:
            await self.client.close(episode)
        slow = slow_grader.rewarded(
            self.specs[task],
            PRIMARY_KEYS,
            self.initial,
            self.golden[task],
            final,
            reply,
            answers.__getitem__,
            judge_says,
        )
        return Both(graded, slow, refusals)


@asynccontextmanager
async def open_desk(server: EnvServer, golden_dir: Path) -> AsyncIterator[Desk]:
    """Prove the desk's tasks, and keep what both graders need."""
    specs = {
        path.stem: yaml.safe_load(path.read_text())
        for path in sorted((DOMAINS / "desk/private").glob("*.yaml"))
    }
    checkset = load_checkset(DOMAINS)
    with judge_server(lambda messages: judge_says(quoted_text(messages))) as judge_http:
        config = IngestSettings(
            domains_dir=DOMAINS,
            golden_dir=golden_dir,
            evidence_token=SecretStr(server.grader_token),
            infra_token=SecretStr(server.infra_token),
            env_server=server.grpc,
            judge_url=judge_http.url,
            judge_model="kind",
        )
        report = await prove_tasks(checkset, config, checkset.task_ids(), lambda line: None)
        assert report.failures == []
        judge = Judge(judge_http.url, "kind")
        source = EvidenceClient(server.grader_token, 15.0)
        async with server.client() as client:
            desk = Desk(
                server,
                client,
                source,
                checkset,
                GoldenStore(golden_dir),
                CheckRunner(judge, Sandbox()),
                specs,
                await _end_state(client, "open-claim", []),
                {},
            )
            for task in specs:
                desk.golden[task] = await _end_state(client, task, desk.golden_statements(task))
            try:
                yield desk
            finally:
                await source.close()
                await judge.close()


async def _end_state(client: EnvClient, task: str, statements: list[str]) -> slow_grader.Tables:
    episode, refusals = await _run(client, task, statements)
    assert refusals == []
    try:
        return await _dump(client, episode)
    finally:
        await client.close(episode)


async def _run(client: EnvClient, task: str, statements: list[str]) -> tuple[Any, list[str]]:
    episode = await client.open(f"desk/{task}")
    refusals = []
    for statement in statements:
        result = await client.call(episode, "run_sql", statement=statement)
        if result.is_error:
            refusals.append(result.content)
    await client.seal(episode)
    return episode, refusals


async def _dump(client: EnvClient, episode: Any) -> slow_grader.Tables:
    tables: slow_grader.Tables = {name: [] for name in PRIMARY_KEYS}
    for row in exact(await client.query(episode, _DUMP)):
        tables[row["name"]].append(row["content"])
    return tables


def exact(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Numbers as Decimals; Postgres' own text keeps those that a double cannot hold."""
    return json.loads(json.dumps(rows), parse_float=Decimal, parse_int=Decimal)


def _queries(spec: dict[str, Any]) -> list[str]:
    found = []
    for check in spec["checks"]:
        found += [check["query"]] if check["kind"] == "sql" else []
        found += check.get("rows", {}).values()
    return found


def random_attempt(
    chance: random.Random, golden: list[str], pool: list[str], replies: list[str]
) -> tuple[list[str], str]:
    """The golden run with some of it lost, replaced, added to or in another order."""
    statements = list(golden)
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        statements[chance.randrange(len(statements))] = chance.choice(pool)
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
        statements.insert(chance.randrange(len(statements) + 1), chance.choice(pool))
    if chance.random() < 0.15:
        del statements[chance.randrange(len(statements))]
    if chance.random() < 0.15:
        chance.shuffle(statements)
    reply = replies[0] if chance.random() < 0.75 else chance.choice(replies)
    return statements, reply


async def agreement(desk: Desk, states: Any, episodes: int, seed: int) -> dict[str, int]:
    """Random attempts, four at a time; AssertionError on the first that the graders see otherwise."""
    counts = {"episodes": 0, "reward_1": 0, "reward_0": 0}
    numbers = iter(range(episodes))

    async def work() -> None:
        for number in numbers:
            chance = random.Random(f"{seed}-{number}")
            task = chance.choice(sorted(desk.specs))
            pool, replies = states.pool(desk, task)
            statements, reply = random_attempt(chance, desk.golden_statements(task), pool, replies)
            both = await desk.attempt(task, statements, reply)
            reward = both.graded.decision.reward
            assert reward == float(both.slow), (number, task, statements, reply, both)
            counts["episodes"] += 1
            counts["reward_1" if both.slow else "reward_0"] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(work())
    return counts
