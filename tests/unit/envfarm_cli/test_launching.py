"""Launchers: the command of each, and what cannot be started is refused before anything is."""

import sys
from pathlib import Path

import pytest

from envfarm_cli import launching, settings
from envfarm_cli.failure import BadInput
from envfarm_cli.launching import Launch

CONFIG = Path("run/learner.toml")
LEARNER = ["learner", "train", "--config", CONFIG]


def test_one_process_needs_no_launcher():
    assert Launch().argv(CONFIG) == [sys.executable, "-m", *LEARNER]


def test_torchrun_starts_this_machines_ranks_and_none_twice():
    argv = Launch(kind="torchrun", ranks_per_node=8).argv(CONFIG)
    assert argv[1:3] == ["-m", "torch.distributed.run"]
    assert argv[3:5] == ["--max-restarts", "0"]
    assert argv[-8:] == ["--standalone", "--nproc-per-node", "8", "--module", *LEARNER]


def test_deepspeed_starts_the_ranks_of_a_hostfile(tmp_path: Path):
    hosts = tmp_path / "hosts"
    hosts.write_text("a slots=8\nb slots=8\n")
    launch = Launch(kind="deepspeed", nodes=2, ranks_per_node=8, hostfile=hosts)
    assert launch.ranks == 16
    assert launch.argv(CONFIG)[2:] == [
        *("deepspeed.launcher.runner", "--hostfile", hosts),
        *("--num_nodes", "2", "--num_gpus", "8", "--module", *LEARNER),
    ]


def test_slurm_starts_one_torchrun_a_node_that_all_meet_on_the_first(monkeypatch):
    monkeypatch.setattr(launching.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "gpu[03-04]")
    argv = Launch(kind="slurm", nodes=2, ranks_per_node=8).argv(CONFIG)
    assert argv[:6] == ["srun", "--nodes", "2", "--ntasks-per-node", "1", "--kill-on-bad-exit=1"]
    assert argv[argv.index("--rdzv-endpoint") + 1] == "gpu03:29500"
    assert argv[argv.index("--rdzv-id") + 1] == "77"
    assert argv[-5:] == ["--module", *LEARNER]


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("gpu[03-05,9]", "gpu03"), ("a1,a2", "a1"), ("solo", "solo"), ("n[7]", "n7")],
)
def test_the_first_node_of_an_allocation(monkeypatch, nodes: str, first: str):
    monkeypatch.setenv("SLURM_JOB_NODELIST", nodes)
    assert settings.slurm_head() == first


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ranks_per_node": 2}, "1 × 2 ranks need a launcher"),
        ({"kind": "torchrun", "nodes": 2}, "not of 2 nodes"),
        ({"kind": "deepspeed", "nodes": 2}, "finds its nodes in a hostfile"),
        ({"kind": "torchrun", "hostfile": Path("x")}, "--hostfile belongs to"),
        ({"kind": "deepspeed", "hostfile": Path("nowhere")}, "nowhere: no such file"),
    ],
)
def test_what_cannot_be_launched_is_refused(given, words: str):
    with pytest.raises(BadInput, match=words):
        Launch(**given)


def test_slurm_outside_an_allocation_is_refused(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(BadInput, match="there is no srun"):
        monkeypatch.setattr(launching.shutil, "which", lambda name: None)
        Launch(kind="slurm").argv(CONFIG)
    monkeypatch.setattr(launching.shutil, "which", lambda name: "srun")
    with pytest.raises(BadInput, match="no SLURM allocation"):
        Launch(kind="slurm").argv(CONFIG)
