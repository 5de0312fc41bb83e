"""`python -m grader.judge.audit_command`: figures about a judge as JSON on stdout.

`envfarm judge audit` runs it; the key of the endpoint comes from GRADER_JUDGE_API_KEY.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from envfarm.errors import ConfigError
from envfarm_common import lifecycle, settings

from grader.judge.audit import OWN_PAIRS, Pair, ask_live, audit, load_pairs, write_pairs
from grader.judge.judge import Judge
from grader.settings import JudgeSettings


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m grader.judge.audit_command",
        description="Measure a judge on labelled pairs. Flags win over GRADER_JUDGE_URL and _MODEL.",
    )
    parser.add_argument("--pairs", type=Path, default=OWN_PAIRS, help="labelled pairs (YAML)")
    parser.add_argument("--live", action="store_true", help="ask the endpoint")
    parser.add_argument("--url", help="OpenAI-compatible endpoint up to /v1")
    parser.add_argument("--model", help="model to ask")
    parser.add_argument("--repeat", type=int, default=3, help="times each pair is asked")
    parser.add_argument("--record", type=Path, help="write the pairs with the answers here")
    return parser.parse_args(argv)


async def _run(arguments: argparse.Namespace) -> None:
    pairs = load_pairs(arguments.pairs)
    if arguments.live:
        pairs = await _ask(pairs, arguments)
        if arguments.record:
            write_pairs(arguments.record, pairs)
    print(json.dumps(asdict(audit(pairs)), ensure_ascii=False))


async def _ask(pairs: list[Pair], arguments: argparse.Namespace) -> list[Pair]:
    given: dict[str, Any] = {
        f"judge_{name}": value
        for name in ("url", "model")
        if (value := getattr(arguments, name)) is not None
    }

    class WithFlags(JudgeSettings):
        def __init__(self) -> None:
            super().__init__(**given)

    config = settings.load(WithFlags)
    if not config.judge_url:
        raise ConfigError("no judge is named", hint="give --url and --model")
    judge = Judge(
        config.judge_url,
        config.judge_model,
        api_key=config.judge_api_key.get_secret_value(),
        timeout_seconds=config.judge_timeout_seconds,
    )
    try:
        return await ask_live(
            pairs,
            judge,
            arguments.repeat,
            lambda done: print(f"asked {done} of {len(pairs)}", file=sys.stderr, flush=True),
        )
    finally:
        await judge.close()


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parse(argv)
    return lifecycle.run(lambda: _run(arguments))


if __name__ == "__main__":
    sys.exit(main())
