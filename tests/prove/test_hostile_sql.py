"""The whole hostile catalogue on both Postgres versions."""

import tempfile
from pathlib import Path

import pytest
from envfarm_common.binaries import find_postgres

from tests.support.hostile_run import all_cases
from tests.support.proof import write_proof


@pytest.mark.prove
@pytest.mark.timeout(1800)
async def test_no_hostile_statement_reaches_the_next_episode():
    figures = {}
    for wheels in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            run = await all_cases(Path(folder), wheels=wheels)
        figures[f"postgres-{find_postgres(wheels=wheels).version}"] = {
            "cases_by_category": run.categories,
            "slots_undone_and_verified": run.undone,
            "slots_dropped_on_a_doubt": run.dropped,
            "problems": run.problems,
        }
    write_proof("hostile-sql", figures)
    assert all(found["problems"] == [] for found in figures.values())
