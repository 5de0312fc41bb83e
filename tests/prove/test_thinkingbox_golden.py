"""ThinkingBox-Bench in hosted worlds, on its own servers: every golden sequence is replayed and passes
the dataset's own test, and a run without calls passes where it does in their harness.

Skipped without these: `ENVFARM_THINKINGBOX_DATA`, a checkout of microsoft/thinkingbox-data, and
`ENVFARM_THINKINGBOX_ENVIRONMENT`, a virtual environment that can run its servers. A folder in
`ENVFARM_THINKINGBOX_STATE` keeps what is done, world by world, for the next run;
`ENVFARM_THINKINGBOX_WORLDS` names single worlds, comma between.
"""

import asyncio
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from envfarm_cli.main import main
from grader.checkset import load_checkset
from grader.ingest import prove_tasks
from grader.settings import IngestSettings
from tests.support.env_server import running_env_server
from tests.support.knowledge_base import knowledge_base
from tests.support.proof import write_proof

DATA = os.environ.get("ENVFARM_THINKINGBOX_DATA", "")
ENVIRONMENT = os.environ.get("ENVFARM_THINKINGBOX_ENVIRONMENT", "")
STATE = os.environ.get("ENVFARM_THINKINGBOX_STATE", "")
ONLY = [name for name in os.environ.get("ENVFARM_THINKINGBOX_WORLDS", "").split(",") if name]
TASKS = 507
IDLE_PASSES = ["sandbox_neobank_support_v1_group1/test_he_017"]
"""Its golden sequence only reads."""
PORT = 8108
"""Where their servers look for a Typesense; no setting of theirs changes it."""

pytestmark = [
    pytest.mark.prove,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not (DATA and ENVIRONMENT), reason="no checkout and environment are named"),
]


def hosted(folder: Path) -> list[str]:
    """Names of the worlds of the 507 tasks, written into `folder`."""
    data = Path(DATA)
    release = data / "releases/thinkingbox_bench_v1/testlist_thinkingbox_bench_v1.yaml"
    # An installation that is no editable one lacks the data files that their code reads.
    sources = data / "servers/tb_business_ops_servers_202606"
    code = main(
        [
            *("import", "thinkingbox", "--dataset", str(data / "dataset")),
            *("--servers", str(data / "servers/servers.yaml"), "--test-list", str(release)),
            *("--worlds", str(folder), "--environment", ENVIRONMENT, "--json"),
            *("--variable", f"PYTHONPATH={sources}"),
        ]
    )
    assert code == 0
    index = json.loads((folder / "hosted.json").read_bytes())
    assert (len(index["hosted"]), index["left_out"]) == (TASKS, {})
    return sorted({item["world"] for item in index["hosted"].values()})


async def proved(world: Path, place: Path, state: Path) -> dict[str, Any]:
    """The report of all tasks of one world."""
    domains = place / "domains"
    domains.mkdir()
    (domains / world.name).symlink_to(world)
    checkset = load_checkset(domains)
    with running_env_server(domains, place, call_deadline_seconds=60) as server:
        config = IngestSettings(
            domains_dir=domains,
            golden_dir=state / "golden",
            evidence_token=SecretStr(server.grader_token),
            infra_token=SecretStr(server.infra_token),
            env_server=server.grpc,
        )
        report = await prove_tasks(
            checkset, config, checkset.task_ids(), print, at_once=4, stand_in_judge=True
        )
    return asdict(report)


def test_golden_sequences_pass_and_idle_runs_pass_where_they_do_upstream(tmp_path: Path):
    state = Path(STATE).absolute() if STATE else tmp_path / "state"
    worlds, done = state / "worlds", state / "done"
    done.mkdir(parents=True, exist_ok=True)
    names = hosted(worlds)
    with knowledge_base(PORT):
        for name in ONLY or names:
            if (done / f"{name}.json").exists():
                continue
            options = ("--domains", str(worlds), "--state-dir", str(state / "pin"), "--json")
            assert main(["world", "pin", name, *options]) == 0
            place = tmp_path / name
            place.mkdir()
            report = asyncio.run(proved(worlds / name, place, state))
            (done / f"{name}.json").write_text(json.dumps(report))
    found = {path.stem: json.loads(path.read_bytes()) for path in sorted(done.glob("*.json"))}
    assert not [failure for report in found.values() for failure in report["failures"]]
    assert all(report["passed"] == report["tasks"] for report in found.values())
    if set(found) == set(names):
        idle = [task for report in found.values() for task in report["empty_passes"]]
        assert idle == IDLE_PASSES
        assert sum(report["passed"] for report in found.values()) == TASKS
        figures = {
            name: {key: report[key] for key in ("tasks", "passed", "episodes", "seconds")}
            for name, report in found.items()
        }
        write_proof("thinkingbox-golden", {"idle_passes": idle, "worlds": figures})
