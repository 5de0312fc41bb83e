"""The judge's client against a real vLLM: the schema holds even a model that knows nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from grader.judge.audit import OWN_PAIRS, ask_live, audit, load_pairs
from grader.judge.judge import Judge
from tests.support.vllm_server import VllmServer

PAIRS = 6
START_SECONDS = 420.0
TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
"""The tiny model has no chat format of its own."""
COMPACT = '{"backend": "xgrammar", "disable_any_whitespace": true}'
"""A model that knows nothing would put blanks between the words until its tokens are spent."""
POLICY = Path(__file__).parents[2] / "domains/orders/world/policy.md"


@pytest.mark.prove
@pytest.mark.timeout(900)
async def test_a_real_engine_answers_yes_or_no_under_the_schema(tmp_path: Path):
    make = [sys.executable, "-m", "learner.tiny_model", "--out", tmp_path / "model", "--seed", "1"]
    subprocess.run([*make, "--text", str(POLICY)], check=True, capture_output=True)
    template = tmp_path / "chat.jinja"
    template.write_text(TEMPLATE)
    flags = ("--chat-template", str(template), "--structured-outputs-config", COMPACT)
    log = tmp_path / "vllm/vllm.log"
    with VllmServer(tmp_path / "model", log, flags=flags, seconds=START_SECONDS) as engine:
        judge = Judge(f"{engine.url}/v1", "policy", timeout_seconds=120)
        asked = await ask_live(load_pairs(OWN_PAIRS)[:PAIRS], judge, 2, lambda number: None)
        await judge.close()
    figures = audit(asked)
    assert (figures.answers, figures.unparsable, figures.flipped) == (2 * PAIRS, 0, 0)
