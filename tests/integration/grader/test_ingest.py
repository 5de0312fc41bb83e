"""Ingest on a real env-server: it proves good tasks and catches bad ones."""

import contextlib
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import pytest
from envfarm.errors import DatabaseError, DeadlineError, EnvfarmError, GraderError

from grader.checkset import Action
from grader.evidence_client import EvidenceClient
from grader.fresh_run import FreshRuns
from grader.ingest import main
from tests.support.env_server import EnvServer, running_env_server

DOMAINS = Path(__file__).parents[3] / "domains"


KINDS = {
    "another tool",
    "argument changed",
    "call dropped",
    "done twice",
    "extra write",
    "gives in",
    "half done",
    "near miss",
    "near miss half done",
    "neighbour's record",
    "order broken",
}


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A domains folder with orders alone."""
    root = tmp_path_factory.mktemp("domains")
    shutil.copytree(DOMAINS / "orders", root / "orders")
    return root


@pytest.fixture(scope="module")
def server(orders: Path) -> Iterator[EnvServer]:
    with running_env_server(orders) as running:
        yield running


@dataclass(frozen=True)
class Ended:
    returncode: int
    stdout: str
    stderr: str


def arguments(server: EnvServer, domains: Path, golden: Path) -> list[str]:
    place = ["--domains", str(domains), "--golden-dir", str(golden), "--env-server", server.grpc]
    return [*place, "--json"]


def tokens(server: EnvServer, **env: str) -> dict[str, str]:
    return {
        "GRADER_INFRA_TOKEN": server.infra_token,
        "GRADER_EVIDENCE_TOKEN": server.grader_token,
        **env,
    }


def ingest(server: EnvServer, domains: Path, golden: Path, *flags: str, **env: str) -> Ended:
    """The command in this process, which saves the time of its start."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, tokens(server, **env)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main([*arguments(server, domains, golden), *flags])
    return Ended(code, out.getvalue(), err.getvalue())


def ingest_apart(server: EnvServer, domains: Path, golden: Path) -> Ended:
    """The command as an operator runs it."""
    ended = subprocess.run(
        [sys.executable, "-m", "grader.ingest", *arguments(server, domains, golden)],
        env={"PATH": os.environ["PATH"], **tokens(server)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def one_task(tmp_path: Path, slug: str, *replacements: tuple[str, str]) -> Path:
    """A domains folder whose private part is this one task, changed."""
    folder = tmp_path / "domains/orders/private"
    folder.mkdir(parents=True)
    path = folder / f"{slug}.yaml"
    shutil.copy(DOMAINS / f"orders/private/{slug}.yaml", path)
    text = path.read_text()
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return tmp_path / "domains"


def reasons(ended: Ended) -> list[str]:
    assert ended.returncode == 1, ended.stderr
    report = json.loads(ended.stdout)
    assert report["passed"] == 0
    return [failure["reason"] for failure in report["failures"]]


def test_every_task_of_orders_is_proved(server: EnvServer, orders: Path, tmp_path: Path):
    ended = ingest_apart(server, orders, tmp_path / "golden")
    report = json.loads(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    assert report["failures"] == []
    assert (
        report["tasks"] == report["passed"] == len(list((tmp_path / "golden").glob("*.json"))) >= 12
    )
    assert report["mutants"] == report["mutants_killed"] >= 12 * report["tasks"]
    assert report["few_mutants"] == {} and report["idle_checks"] == []
    assert report["equivalent_declared"] == 0
    assert set(report["by_kind"]) == KINDS
    assert ended.stderr.count(": proved") == report["tasks"]


def test_ingest_twice_writes_the_same_bytes(server: EnvServer, orders: Path, tmp_path: Path):
    task = ("--task", "orders/refund-approval")
    for name in ("a", "b"):
        assert ingest(server, orders, tmp_path / name, *task).returncode == 0
    first, second = ({f.name: f.read_bytes() for f in (tmp_path / n).iterdir()} for n in "ab")
    assert first == second
    assert len(first) == 2, "one snapshot, and the world's initial state"


def test_checks_that_let_mutants_through_are_refused_and_write_nothing(
    server: EnvServer, tmp_path: Path
):
    weak = ("    kind: state\n", "    kind: untouched\n    tables: [customers]\n")
    domains = one_task(tmp_path, "refund-damaged", weak)
    found = reasons(ingest(server, domains, tmp_path / "golden"))
    survivors = [
        "half done: nothing but the reply",
        "extra write: issue_refund",
        "near miss: refunds the whole order",
        "argument changed: write 1 issue_refund reason is wrong_item",
    ]
    for name in survivors:
        why = f"the mutant {name!r} is not caught: every check passed; it ends otherwise than golden in"
        assert any(reason.startswith(why) for reason in found), found
    assert not (tmp_path / "golden").exists()


def test_a_golden_call_that_is_refused_fails_the_task(server: EnvServer, tmp_path: Path):
    domains = one_task(tmp_path, "cancel-placed", ("cancel_order", "cancel_oder"))
    assert reasons(ingest(server, domains, tmp_path / "golden"))[0].startswith(
        "a golden call was refused: cancel_oder: "
    )


def test_a_run_without_calls_must_do_what_is_declared(server: EnvServer, tmp_path: Path):
    domains = one_task(tmp_path, "refund-too-late", ("empty: passes\n", ""))
    assert reasons(ingest(server, domains, tmp_path / "golden")) == [
        "the empty run does not do what `empty: fails` says"
    ]


def test_a_check_with_a_misspelt_column_fails_the_task(server: EnvServer, tmp_path: Path):
    domains = one_task(tmp_path, "cancel-packed", ("tickets.note", "tickets.notes"))
    found = reasons(ingest(server, domains, tmp_path / "golden"))
    assert any("the world has no tickets.notes" in reason for reason in found)


def test_a_query_that_is_wrong_fails_the_task(server: EnvServer, tmp_path: Path):
    domains = one_task(tmp_path, "refund-approval", ("JOIN approvals", "JOIN aprovals"))
    found = reasons(ingest(server, domains, tmp_path / "golden"))
    assert any("cannot run: the query fails" in reason for reason in found)


def test_an_unknown_task_is_one_clear_line(server: EnvServer, orders: Path, tmp_path: Path):
    ended = ingest(server, orders, tmp_path / "golden", "--task", "orders/none")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("error: there are no checks for the task 'orders/none'")


def test_a_wrong_token_is_one_clear_line(server: EnvServer, orders: Path, tmp_path: Path):
    golden = tmp_path / "golden"
    ended = ingest(server, orders, golden, GRADER_INFRA_TOKEN="not-the-right-token")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.count("\n") == 1


DECLARED = """\
equivalent:
  - mutant: "argument changed: write 1 issue_refund reason is wrong_item"
    rows: {refunds: [{refund_id: R-204}], order_events: [{order_id: O-1012, seq: 5}]}
    because: the reason is the customer's to give
"""


def loose_reason(tmp_path: Path, declared: str) -> Path:
    """A task whose check does not look at the reason of the refund."""
    loose = (
        "    kind: state\n",
        "    kind: state\n    unstable: [refunds.reason, order_events.detail]\n",
    )
    domains = one_task(tmp_path, "refund-damaged", loose)
    path = domains / "orders/private/refund-damaged.yaml"
    text = path.read_text()
    wrong_reason = text.index("  - name: wrong reason")
    path.write_text(text[:wrong_reason] + declared)
    return domains


def test_a_mutant_that_a_person_declares_right_is_counted_and_not_a_failure(
    server: EnvServer, tmp_path: Path
):
    domains = loose_reason(
        tmp_path, DECLARED + DECLARED.partition("\n")[2].replace("wrong_item", "late")
    )
    ended = ingest(server, domains, tmp_path / "golden", "--task", "orders/refund-damaged")
    report = json.loads(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    assert report["equivalent_declared"] == 2
    assert report["mutants_killed"] == report["mutants"] - 2


def test_more_than_a_twentieth_declared_equivalent_fails_a_whole_run(
    server: EnvServer, tmp_path: Path
):
    domains = loose_reason(
        tmp_path, DECLARED + DECLARED.partition("\n")[2].replace("wrong_item", "late")
    )
    ended = ingest(server, domains, tmp_path / "golden", "--domain", "orders")
    (failure,) = json.loads(ended.stdout)["failures"]
    assert failure["task"] == "all"
    assert "are declared equivalent, more than 5%" in failure["reason"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seq: 5", "seq: 6", "and the rows that differ are"),
        ("is wrong_item", "is stolen", "there is no such mutant"),
        (
            "argument changed: write 1 issue_refund reason is wrong_item",
            "extra write: issue_refund",
            "the checks catch: take it out",
        ),
    ],
)
def test_a_declaration_that_is_not_true_fails_the_task(
    server: EnvServer, tmp_path: Path, old: str, new: str, said: str
):
    assert old in DECLARED
    domains = loose_reason(tmp_path, DECLARED.replace(old, new))
    assert any(said in reason for reason in reasons(ingest(server, domains, tmp_path / "golden")))


@dataclass
class Slow:
    """The first run of each opening call meets trouble, of each kind in turn, and so does each query once."""

    runs: int = 0
    queries: int = 0
    seen: set[str] = field(default_factory=set)
    kinds: Iterator[type[EnvfarmError]] = field(
        default_factory=lambda: itertools.cycle((DeadlineError, DatabaseError, GraderError))
    )

    def patched(self) -> list[mock._patch]:  # pyright: ignore[reportPrivateUsage, reportMissingTypeArgument, reportUnknownParameterType]
        do, query = FreshRuns._do, EvidenceClient._query  # pyright: ignore[reportPrivateUsage]

        async def slow_do(runs: FreshRuns, episode_id: str, index: int, action: Action) -> str:
            if index == 0 and self._is_first(str(action)):
                self.runs += 1
                raise next(self.kinds)("DEADLINE_EXCEEDED")
            return await do(runs, episode_id, index, action)

        async def slow_query(source: EvidenceClient, target: str, episode_id: str, text: str):
            if self._is_first(f"{episode_id} {text}"):
                self.queries += 1
                raise DeadlineError("the query ran longer than 2 s")
            return await query(source, target, episode_id, text)

        return [
            mock.patch.object(FreshRuns, "_do", slow_do),
            mock.patch.object(EvidenceClient, "_query", slow_query),
        ]

    def _is_first(self, what: str) -> bool:
        is_first = what not in self.seen
        self.seen.add(what)
        return is_first


def test_trouble_on_the_way_changes_nothing_in_what_is_proved(
    server: EnvServer, orders: Path, tmp_path: Path
):
    task = ("--task", "orders/refund-approval")
    quiet = ingest(server, orders, tmp_path / "quiet", *task)
    slow = Slow()
    runs, queries = slow.patched()
    with runs, queries:
        busy = ingest(server, orders, tmp_path / "busy", *task)
    assert slow.runs >= 3 and slow.queries >= 10
    assert (quiet.returncode, busy.returncode) == (0, 0), busy.stderr
    one, other = json.loads(quiet.stdout), json.loads(busy.stdout)
    assert other.pop("episodes") >= one.pop("episodes") + slow.runs
    assert other.pop("seconds") and one.pop("seconds")
    assert other == one
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("quiet", "busy")
    )
    assert first == second


def test_trouble_that_stays_ends_the_job_with_its_reason(
    server: EnvServer, orders: Path, tmp_path: Path
):
    said = "tool get_order ran longer than 10 s and was undone"
    with mock.patch.object(FreshRuns, "_do", side_effect=DeadlineError(said)) as never:
        ended = ingest(server, orders, tmp_path / "golden", "--task", "orders/refund-approval")
    assert (ended.returncode, ended.stdout, never.call_count) == (1, "", 3)
    assert said in ended.stderr
    assert not (tmp_path / "golden").exists()
