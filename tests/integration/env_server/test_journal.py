"""The row journal on real Postgres: evidence equals whole tables, an undo leaves no trace."""

import random
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from env_server.journal_evidence import Doubt
from tests.integration.env_server.conftest import require_system_postgres
from tests.support.journal_faults import FAULTS
from tests.support.journal_oracle import JournalBench, own_cluster
from tests.support.random_sql import program

PROGRAMS = 25
SEED = 20260302


@pytest.fixture(params=["wheel", "system"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[JournalBench]:
    if request.param == "system":
        require_system_postgres()
    with tempfile.TemporaryDirectory() as folder:
        async with own_cluster(Path(folder), wheels=request.param == "wheel") as cluster:
            yield await JournalBench.make(cluster)


async def test_random_programs_are_seen_and_undone_exactly(bench: JournalBench):
    draw = random.Random(SEED)
    for _ in range(PROGRAMS):
        await bench.run(program(draw))
        await bench.judge()
    assert bench.fallbacks == 0
    assert len(bench.seen_states) > PROGRAMS // 2
    assert bench.failed < bench.statements // 2
    await _each_awkward_change(bench)
    await _faults_are_found(bench)


async def _each_awkward_change(bench: JournalBench) -> None:
    """By hand: what is known to go wrong in journals."""
    for statements, changes in [
        (["UPDATE seats SET id = CASE id WHEN 1 THEN 2 ELSE 1 END WHERE id < 3"], 2),
        (["UPDATE seats SET id = id + 1"], 13),
        (["UPDATE accounts SET balance = 5 WHERE id = 1"], 3),
        (["DELETE FROM parents WHERE id = 1"], 5),
        (["DELETE FROM seats WHERE id = 2", "UPDATE parents SET id = 99 WHERE id = 2"], 9),
        (["UPDATE readings SET area = 15 WHERE id = 1"], 2),
        (["INSERT INTO stock VALUES ('a', 1)", "DELETE FROM stock WHERE sku = 'a'"], 0),
        (["UPDATE stock SET amount = amount"], 0),
        (["UPDATE things SET exact = 1.50 WHERE id = 1"] * 2, 1),
        (["UPDATE things SET span = '24 hours' WHERE id = 1"] * 2, 1),
        (["SET extra_float_digits = -12", "UPDATE things SET double = 5.0 / 7 WHERE id = 3"], 1),
        (["SET timezone = 'Asia/Tokyo'", "UPDATE things SET at = '2026-05-01 10:00' WHERE id = 3"], 1),
        (["BEGIN", "DELETE FROM stock", "ROLLBACK"], 0),
    ]:  # fmt: skip
        await bench.run([(0, statement) for statement in statements])
        found = await bench.judge()
        assert len(found.changes) == changes, statements
        assert found.from_journal
    async with bench.slot.connection.cursor().copy("COPY stock FROM STDIN") as copy:
        await copy.write_row(("copied", 1))
    assert [change.key_json for change in (await bench.judge()).changes] == ['{"sku":"copied"}']


async def _faults_are_found(bench: JournalBench) -> None:
    number = [table.name for table in bench.template.tables].index("stock")
    names = {"r": f"r{number}", "undo": f"undo{number}", "t": "stock"}
    for fault, plant, act in FAULTS:
        await bench.fresh_slot()
        async with bench.cluster.keepers.of(bench.slot) as keeper:
            filled = plant
            for name, value in (*names.items(), ("role", bench.slot.name)):
                filled = filled.replace("{" + name + "}", value)
            await keeper.execute(filled.encode(), prepare=False)
        try:
            await bench.slot.connection.execute(act.encode())
        except psycopg.errors.InsufficientPrivilege:
            pass
        found = await bench.cluster.collect(bench.slot)
        with pytest.raises((Doubt, psycopg.Error)):
            await bench.cluster.reset(bench.slot, full=False)
            pytest.fail(f"{fault}: nobody noticed, evidence from_journal={found.from_journal}")


async def test_growth_is_capped_and_the_refusal_is_the_models(bench: JournalBench):
    conn = bench.slot.connection
    for statement in (
        "INSERT INTO stock SELECT 'x' || n, 1 FROM generate_series(1, 1000000) n",
        "UPDATE things SET words = repeat('x', 300000000)",
    ):
        with pytest.raises(
            psycopg.errors.ConfigurationLimitExceeded, match="more rows than it may"
        ):
            await conn.execute(statement.encode())
    assert (await bench.judge()).changes == ()
