"""A slot of the kinds world with two agent sessions, judged against a full dump.

async with kinds_cluster() as cluster:
    bench = await JournalBench.make(cluster)
    await bench.run(program)
    await bench.judge()      # evidence equals that of whole tables; the undo leaves no trace
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from envfarm_common.binaries import find_postgres
from psycopg import AsyncConnection

from env_server import baseline, evidence, journal_evidence, reset
from env_server.cluster import Cluster
from env_server.evidence import Evidence
from env_server.postgres import EmbeddedPostgres
from env_server.slot import Slot
from env_server.template import Template
from env_server.world import load_world
from tests.support.random_sql import Step

KINDS = Path(__file__).parent / "kinds" / "kinds" / "world"
MAX_UNITS = 20_000


@contextlib.asynccontextmanager
async def own_cluster(folder: Path, *, wheels: bool = True) -> AsyncIterator[Cluster]:
    """A Postgres of the test alone, with an env-server's cluster on it, in this process."""
    folder.chmod(0o755)
    postgres = await EmbeddedPostgres.start(
        find_postgres(wheels=wheels),
        state_dir=folder,
        memory_dir=Path("/dev/shm"),
        max_connections=40,
        user="nobody",
    )
    try:
        cluster = await Cluster.connect(postgres.conninfo, 20, 4)
        yield cluster
        await cluster.close()
    finally:
        await postgres.stop()


@dataclass(slots=True)
class JournalBench:
    cluster: Cluster
    template: Template
    clean: dict[str, list[str]]
    """Full dump of an untouched clone."""
    slot: Slot
    second: AsyncConnection[Any]
    statements: int = 0
    failed: int = 0
    fallbacks: int = 0
    """Episodes whose evidence had to be read from whole tables."""
    seen_states: set[str] = field(default_factory=set)

    @classmethod
    async def make(cls, cluster: Cluster, template: Template | None = None) -> "JournalBench":
        template = template or await cluster.build_template(load_world(KINDS), MAX_UNITS)
        untouched = await cluster.clone(template)
        async with cluster.keepers.of(untouched) as keeper:
            clean = await dump(keeper, template)
        await cluster.drop(untouched)
        slot, second = await _two_sessions(cluster, template)
        return cls(cluster, template, clean, slot, second)

    async def fresh_slot(self) -> None:
        await self.second.close()
        await self.cluster.drop(self.slot)
        self.slot, self.second = await _two_sessions(self.cluster, self.template)

    async def run(self, program: Sequence[Step]) -> None:
        """Run it; statements that Postgres refuses are part of it."""
        for conn in (self.slot.connection, self.second):
            await conn.execute("SET lock_timeout = '20ms'")
        for session, statement in program:
            conn = (self.slot.connection, self.second)[session]
            self.statements += 1
            try:
                await conn.execute(statement.encode())
            except psycopg.Error:
                self.failed += 1
        for conn in (self.second, self.slot.connection):
            await conn.execute("ROLLBACK")
            await conn.execute(reset.FLUSH)

    async def judge(self, *, full: bool = True) -> Evidence:
        """AssertionError when the journal's evidence or the undo is not what a dump says."""
        found = await self.cluster.collect(self.slot)
        async with self.cluster.keepers.of(self.slot) as keeper:
            final = await evidence.read_snapshot(
                keeper, self.template.tables, self.template.initial
            )
        whole = evidence.compare(self.template.initial, final)
        assert found.final_state_hash == whole.final_state_hash
        assert found.digests == whole.digests
        assert found.changes == whole.changes
        self.fallbacks += not found.from_journal
        self.seen_states.add(found.final_state_hash)
        await self.cluster.reset(self.slot, full=full)
        async with self.cluster.keepers.of(self.slot) as keeper:
            assert await dump(keeper, self.template) == self.clean
        return found


async def _two_sessions(cluster: Cluster, template: Template) -> tuple[Slot, AsyncConnection[Any]]:
    slot = await cluster.clone(template)
    async with cluster.keepers.of(slot) as keeper:
        await keeper.execute(f'ALTER ROLE "{slot.name}" CONNECTION LIMIT 2')
        await keeper.execute(f"ALTER ROLE \"{slot.name}\" PASSWORD 'known'")
        slot.role = await baseline.read_role(keeper, slot.name)
    info = slot.connection.info
    second = await AsyncConnection.connect(
        host=info.host,
        port=info.port,
        dbname=slot.name,
        user=slot.name,
        password="known",
        options=evidence.SESSION,
        autocommit=True,
        prepare_threshold=None,
    )
    return slot, second


async def dump(conn: AsyncConnection[Any], template: Template) -> dict[str, list[str]]:
    """Everything an episode could have changed, as text."""
    found: dict[str, list[str]] = {}
    for table in template.tables:
        rows = await conn.execute(
            f'SELECT t::text COLLATE "C" FROM public."{table.name}" t ORDER BY 1'
        )
        found[table.name] = [row[0] for row in await rows.fetchall()]
    names = template.baseline.sequence_names
    reading = baseline.sequences_query(names) if names else None
    found["sequences"] = [str(item) for item in await baseline.read_sequences(conn, reading)]
    found["catalogs"] = list(await baseline.read_catalogs(conn))
    summary = await journal_evidence.summarize(conn, template)
    found["journal"] = [str(summary.journalled), str(summary.is_dirty)]
    return found
