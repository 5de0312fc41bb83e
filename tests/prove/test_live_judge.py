"""The judge's client against a real vLLM: the schema holds even a model that knows nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from grader.judge.audit import OWN_PAIRS, ask_live, audit, load_pairs
from grader.judge.judge import Judge
from tests.support.vllm_server import VllmServer

PAIRS = 6
POLICY = Path(__file__).parents[2] / "domains/orders/world/policy.md"


@pytest.mark.prove
@pytest.mark.timeout(600)
async def test_a_real_engine_answers_yes_or_no_under_the_schema(tmp_path: Path):
    make = [sys.executable, "-m", "learner.tiny_model", "--out", tmp_path / "model", "--seed", "1"]
    subprocess.run([*make, "--text", str(POLICY)], check=True, capture_output=True)
    with VllmServer(tmp_path / "model", tmp_path / "vllm/vllm.log") as engine:
        judge = Judge(f"{engine.url}/v1", "policy", timeout_seconds=120)
        asked = await ask_live(load_pairs(OWN_PAIRS)[:PAIRS], judge, 2, lambda number: None)
        await judge.close()
    figures = audit(asked)
    assert (figures.answers, figures.unparsable, figures.flipped) == (2 * PAIRS, 0, 0)
