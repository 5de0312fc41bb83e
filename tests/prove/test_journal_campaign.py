"""Full campaign against the row journal: random SQL, judged by a full dump of an untouched clone.

`ENVFARM_PROVE_PROGRAMS` sets the number of programs (2,000), `ENVFARM_PROVE_SEED` the seed.
"""

import os
import random
import tempfile
import time
from pathlib import Path

import pytest

from tests.support.journal_oracle import JournalBench, own_cluster
from tests.support.proof import write_proof
from tests.support.random_sql import program

PROGRAMS = int(os.environ.get("ENVFARM_PROVE_PROGRAMS", "2000"))
SEED = int(os.environ.get("ENVFARM_PROVE_SEED", "1"))
REUSES = 200


@pytest.mark.prove
@pytest.mark.timeout(3600)
async def test_random_programs_are_seen_and_undone_exactly():
    draw = random.Random(SEED)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        async with own_cluster(Path(folder)) as cluster:
            bench = await JournalBench.make(cluster)
            for number in range(PROGRAMS):
                if number % REUSES == REUSES - 1:
                    await bench.fresh_slot()
                await bench.run(program(draw, draw.randint(20, 40)))
                await bench.judge(full=number % 10 == 0)
    write_proof(
        "journal-campaign",
        {
            "seed": SEED,
            "programs": PROGRAMS,
            "statements": bench.statements,
            "refused_statements": bench.failed,
            "different_final_states": len(bench.seen_states),
            "fallbacks_to_whole_tables": bench.fallbacks,
            "evidence_unlike_whole_tables": 0,
            "undos_unlike_an_untouched_clone": 0,
            "seconds": round(time.monotonic() - begin, 1),
        },
    )
    assert bench.fallbacks == 0
    assert len(bench.seen_states) > PROGRAMS // 2
