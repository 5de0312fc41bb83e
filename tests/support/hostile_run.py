"""Run hostile cases in slots that are used again, and look at what the next episode finds."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from envfarm.canonical import canonical_json
from envfarm.errors import EnvfarmError
from psycopg import AsyncConnection

from env_server import tool_call
from env_server.cluster import Cluster
from env_server.journal_evidence import Doubt
from env_server.slot import Slot
from env_server.template import Template
from env_server.world import load_world
from tests.support.hostile_sql import CASES, Case
from tests.support.journal_oracle import KINDS, MAX_UNITS, dump, own_cluster

DEADLINE_SECONDS = 1.0
PROBES = (
    "SELECT current_user = session_user, current_setting('is_superuser')",
    *(
        f"SELECT current_setting('{name}')"
        for name in (
            "search_path", "timezone", "extra_float_digits", "work_mem", "statement_timeout",
            "default_transaction_read_only", "lock_timeout", "session_replication_role", "datestyle",
        )
    ),
    "SELECT * FROM stock ORDER BY sku",
    "SELECT count(*), sum(big), max(at) FROM things",
    "UPDATE stock SET amount = amount WHERE sku = 'sku-1' RETURNING amount",
    "INSERT INTO audit (what) VALUES ('probe') RETURNING id",
    "SELECT 5.0 / 7::double precision, timestamptz '2026-01-01Z'",
    "EXECUTE p",
    "FETCH c",
    "SELECT * FROM mine",
    "SELECT * FROM journal.r0",
)  # fmt: skip


@dataclass(slots=True)
class HostileRun:
    """Counts of what became of the slots."""

    cluster: Cluster
    template: Template
    other: Slot
    """A neighbour's slot, which nothing may touch."""
    clean: dict[str, list[str]]
    answers: list[str]
    """What the probes answer in an untouched clone."""
    undone: int = 0
    dropped: int = 0
    categories: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @classmethod
    async def make(cls, cluster: Cluster, template: Template) -> "HostileRun":
        untouched, other = await cluster.clone(template), await cluster.clone(template)
        async with cluster.keepers.of(untouched) as keeper:
            clean = await dump(keeper, template)
        answers = await _probe(untouched.connection)
        await cluster.drop(untouched)
        return cls(cluster, template, other, clean, answers)

    async def run(self, case: Case) -> None:
        """One episode with the case, then the next one in the same slot, or in its successor."""
        slot = await self.cluster.clone(self.template)
        try:
            await self._attack(slot, case)
            try:
                await self.cluster.reset(slot, full=False)
                self.undone += 1
            except (Doubt, psycopg.Error):
                await self.cluster.drop(slot)
                slot = await self.cluster.clone(self.template)
                self.dropped += 1
            async with self.cluster.keepers.of(slot) as keeper:
                self._require(await dump(keeper, self.template) == self.clean, case, "rows differ")
            same = await _probe(slot.connection) == self.answers
            self._require(same, case, "the next episode sees something else")
        finally:
            await self.cluster.drop(slot)
        self.categories[case.category] = self.categories.get(case.category, 0) + 1

    async def neighbour_is_untouched(self) -> None:
        async with self.cluster.keepers.of(self.other) as keeper:
            assert await dump(keeper, self.template) == self.clean
        assert await _probe(self.other.connection) == self.answers

    async def _attack(self, slot: Slot, case: Case) -> None:
        was_refused = False
        for statement in case.statements:
            text = statement.replace("{other}", self.other.name).replace("{role}", slot.name)
            if case.by_tool:
                was_refused = await self._by_tool(slot, text)
                continue
            try:
                await slot.connection.execute(text.encode())
                was_refused = False
            except psycopg.Error:
                was_refused = True
        self._require(was_refused or not case.is_refused, case, "it was allowed")

    def _require(self, holds: bool, case: Case, otherwise: str) -> None:
        if not holds:
            self.problems.append(f"{case.category}: {'; '.join(case.statements)}: {otherwise}")

    async def _by_tool(self, slot: Slot, statement: str) -> bool:
        tool = self.template.world.tools["run"]
        arguments = canonical_json({"query": statement})
        try:
            seen = await tool_call.run(
                slot.connection, tool, arguments, self.template.world.now, DEADLINE_SECONDS
            )
        except EnvfarmError:
            return True
        return seen.is_error


async def all_cases(folder: Path, *, wheels: bool = True) -> HostileRun:
    """Every case, on a Postgres of its own; problems are in the result."""
    async with own_cluster(folder, wheels=wheels) as cluster:
        template = await cluster.build_template(load_world(KINDS), MAX_UNITS)
        run = await HostileRun.make(cluster, template)
        for case in CASES:
            await run.run(case)
        await run.neighbour_is_untouched()
        assert await cluster.sweep() == 0
        return run


async def _probe(conn: AsyncConnection[Any]) -> list[str]:
    """Answers or SQLSTATEs of the probes, in a transaction that is undone."""
    answers = []
    for probe in PROBES:
        await conn.execute("BEGIN")
        try:
            cursor = await conn.execute(probe.encode())
            answers.append(str(await cursor.fetchall()))
        except psycopg.Error as error:
            answers.append(error.sqlstate or type(error).__name__)
        await conn.execute("ROLLBACK")
    return answers
