"""Proving tasks: `python -m grader.ingest` on a running env-server, and remembering that it passed."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envfarm.canonical import bytes_hash, content_hash

from envfarm_cli import service_specs
from envfarm_cli.children import ChildSet, died
from envfarm_cli.state_dir import StateDir, write_atomically

_PROGRESS = re.compile(r"^\[(\d+)/(\d+)\] ")


@dataclass(slots=True)
class Proofs:
    """What the grader's ingest reported."""

    tasks: int = 0
    passed: int = 0
    mutants: int = 0
    mutants_killed: int = 0
    equivalent_declared: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    """(task id, reason)"""
    by_kind: dict[str, dict[str, int]] = field(default_factory=dict)
    """Kind of mutant → {"mutants", "killed"}."""
    no_mutants: int = 0
    """Runs of the catalogue that proved to be as right as the golden one."""
    idle_checks: list[dict[str, str]] = field(default_factory=list)
    """{"task", "check"}: checks that no wrong run failed."""
    few_mutants: dict[str, int] = field(default_factory=dict)
    """Tasks whose mutants are too few to prove much, and how many they have."""
    empty_passes: list[str] = field(default_factory=list)
    """Tasks of datasets that a run without calls passes."""
    episodes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofChoice:
    """Which tasks are proved, and how."""

    domain: str = ""
    """Only of this domain; empty means all."""
    tasks: Sequence[str] = ()
    """Only these; empty means all."""
    jobs: int | None = None
    """Episodes at once; None takes what suits two cores."""
    stand_in_judge: bool = False
    """Whether rubrics are answered without a model."""


ALL = ProofChoice()


def prove(
    children: ChildSet,
    state: StateDir,
    *,
    domains: Path,
    env_server: str,
    choice: ProofChoice = ALL,
    on_line: Callable[[str], None] | None = None,
    tick: Callable[[], None] | None = None,
) -> Proofs:
    """Run the proofs; `on_line` gets one line per task. ChildFailed when they could not be run."""
    spec = service_specs.ingest(state, domains, env_server, choice.domain, list(choice.tasks))
    argv = [*spec.argv, *(["--jobs", str(choice.jobs)] if choice.jobs else [])]
    argv += ["--stand-in-judge"] if choice.stand_in_judge else []
    log = state.log("proofs")
    child = children.start(spec.name, argv, env=spec.env, log=log, cwd=state.path)
    seen = 0

    def follow() -> None:
        nonlocal seen
        lines = [line for line in _lines(log) if _PROGRESS.match(line)]
        for line in lines[seen:]:
            if on_line:
                on_line(line)
        seen = len(lines)
        if tick:
            tick()

    children.wait_end(child, follow)
    follow()
    report = next((line for line in reversed(_lines(log)) if line.startswith('{"tasks"')), None)
    if report is None:
        raise died(child, "before it had a report")
    value = json.loads(report)
    failures = [(failure["task"], failure["reason"]) for failure in value.pop("failures")]
    return Proofs(**value, failures=failures)


def is_proved(state: StateDir, domain: Path) -> bool:
    """Whether exactly the files of this domain were proved in this state folder, by this grader."""
    return _proved(state).get(domain.name) == domain_hash(domain)


def remember_proof(state: StateDir, domain: Path, proofs: Proofs) -> None:
    """A domain with a task that failed is proved again next time."""
    if not proofs.failures:
        record = {**_proved(state), domain.name: domain_hash(domain)}
        write_atomically(state.path / "golden" / "proved.json", {"domains": record})


def domain_hash(domain: Path) -> str:
    """SHA-256 (hex) over every file of the domain's folder and of the grader that judges it."""
    import importlib.util

    spec = importlib.util.find_spec("grader")
    roots = [domain, *([Path(spec.origin).parent] if spec and spec.origin else [])]
    return content_hash(
        [
            {
                str(path.relative_to(root)): bytes_hash(path.read_bytes())
                for path in sorted(root.rglob("*"))
                if path.is_file() and "__pycache__" not in path.parts
            }
            for root in roots
        ]
    )


def _proved(state: StateDir) -> dict[str, str]:
    """Domain → hash of the files that were proved."""
    try:
        return json.loads((state.path / "golden" / "proved.json").read_text())["domains"]
    except FileNotFoundError:
        return {}


def _lines(log: Path) -> list[str]:
    # The last line may still be in the making.
    return log.read_text(errors="replace").split("\n")[:-1]
