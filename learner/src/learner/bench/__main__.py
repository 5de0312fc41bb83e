"""`python -m learner.bench`: one JSON object on stdout, a line a measurement on stderr."""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from envfarm.errors import LearnerError

from learner import command_end, settings

SMALL, LARGE = 8_192, 131_072


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m learner.bench",
        description="Measure the learner beside the bare model: speed, padding, memory by size of "
        "vocabulary, publication, and whether a resumed run goes on bit for bit.",
    )
    parser.add_argument("--rounds", type=int, default=3, help="interleaved pairs of the ratio")
    parser.add_argument("--skip-memory", action="store_true", help="leave the two peaks out")
    parser.add_argument(
        "--trl-python", type=Path, help="an interpreter that has TRL, to measure its GRPO loss too"
    )
    options = parser.parse_args(arguments)
    results = command_end.results_only()
    return command_end.run(lambda: print(json.dumps(_figures(options)), file=results, flush=True))


def _figures(options: argparse.Namespace) -> dict[str, Any]:
    from learner.bench import beside_trl, case, speed

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = case.make_model(folder / "model", case.VOCABULARY)
        _say("speed: learner and bare model")
        figures = speed.measure(model, options.rounds)
        figures["trl_tokens_per_s"] = None
        if options.trl_python is not None:
            _say("TRL on the same tokens")
            figures.update(beside_trl.measure(options.trl_python, model, folder, options.rounds))
        if not options.skip_memory:
            for label, vocabulary in (("8k", SMALL), ("128k", LARGE)):
                _say(f"memory at a vocabulary of {vocabulary:,}")
                figures[f"peak_extra_bytes_vocab_{label}"] = _peak(folder / label, vocabulary)
        _say("publication, resume")
        figures.update(_publish_and_resume(model, folder))
    return figures


def _peak(folder: Path, vocabulary: int) -> int:
    command = [sys.executable, "-m", "learner.bench.memory", folder, str(vocabulary)]
    done = subprocess.run(
        command,
        env=settings.environment_of_a_child(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LearnerError(f"memory: {done.stderr.strip().splitlines()[-1]}")
    return int(done.stderr.strip().splitlines()[-1])


def _publish_and_resume(model: Path, folder: Path) -> dict[str, Any]:
    from learner import checkpoint_folder, served_folder
    from learner.bench import case
    from learner.engine import TrainerEngine
    from learner.update import Work, forward_backward

    lines = tuple(case.make_lines()[:2])
    work = Work(lines=lines, tokens=sum(int(x.sampled.sum()) for x in lines), has_signal=True)

    def trained(engine: TrainerEngine) -> dict[str, torch.Tensor]:
        forward_backward(engine, work, case.ALGORITHM, case.LAYOUT, current_version=0)
        engine.step(case.ADAMW.lr)
        return engine.weights()

    def fresh() -> TrainerEngine:
        return TrainerEngine(case.settings(model), case.LAYOUT, case.ADAMW, seed=1)

    first = fresh()
    trained(first)
    checkpoint_folder.save(folder / "checkpoints", first, facts={"recipe_hash": "bench"}, keep=1)
    started = time.monotonic()
    served_folder.write(folder / "published", first.weights(), model)
    seconds = time.monotonic() - started
    wanted = trained(first)
    second = fresh()
    checkpoint_folder.load(folder / "checkpoints", second, recipe_hash="bench")
    found = trained(second)
    exact = all(torch.equal(found[name], tensor) for name, tensor in wanted.items())
    return {"publish_seconds": seconds, "resume_exact": exact}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
