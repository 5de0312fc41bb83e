"""How the learner's ranks are started: one process here, or many by a launcher of the cluster.

Each launcher ends all ranks when one of them fails (torchrun and deepspeed by their agents, srun by
--kill-on-bad-exit), and none starts a rank again: the run goes on from its last checkpoint when the
same command is given once more, on another number of GPUs, too.
"""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envfarm_cli import settings
from envfarm_cli.failure import BadInput

Kind = Literal["local", "torchrun", "deepspeed", "slurm"]
PORT = 29500
"""Where the nodes of a SLURM job meet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    kind: Kind = "local"
    nodes: int = 1
    ranks_per_node: int = 1
    hostfile: Path | None = None
    """Of deepspeed: a line `HOST slots=N` for each node."""

    def __post_init__(self) -> None:
        if self.kind == "local" and (self.nodes, self.ranks_per_node) != (1, 1):
            raise BadInput(
                f"{self.nodes} × {self.ranks_per_node} ranks need a launcher",
                hint="add --launcher torchrun, deepspeed or slurm",
            )
        if self.kind == "torchrun" and self.nodes > 1:
            raise BadInput(
                f"torchrun would start the ranks of this machine only, not of {self.nodes} nodes",
                hint="use --launcher slurm, or deepspeed with --hostfile",
            )
        if self.kind == "deepspeed" and self.nodes > 1 and self.hostfile is None:
            raise BadInput("deepspeed finds its nodes in a hostfile", hint="add --hostfile FILE")
        if self.hostfile is not None and self.kind != "deepspeed":
            raise BadInput("--hostfile belongs to --launcher deepspeed")
        if self.hostfile is not None and not self.hostfile.is_file():
            raise BadInput(f"--hostfile {self.hostfile}: no such file")

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    def argv(self, config: Path) -> list[str | Path]:
        """The command that starts every rank with `config`. BadInput when the launcher is not here."""
        learner: list[str | Path] = ["learner", "train", "--config", config]
        python = sys.executable
        if self.kind == "local":
            return [python, "-m", *learner]
        torchrun = [python, "-m", "torch.distributed.run", "--max-restarts", "0"]
        per_node = ["--nproc-per-node", str(self.ranks_per_node)]
        if self.kind == "torchrun":
            return [*torchrun, "--standalone", *per_node, "--module", *learner]
        if self.kind == "deepspeed":
            hosts = ["--hostfile", self.hostfile] if self.hostfile else []
            nodes = ["--num_nodes", str(self.nodes), "--num_gpus", str(self.ranks_per_node)]
            return [python, "-m", "deepspeed.launcher.runner", *hosts, *nodes, "--module", *learner]
        return [*self._srun(), *torchrun, *self._meeting(), *per_node, "--module", *learner]

    def _srun(self) -> Sequence[str]:
        if shutil.which("srun") is None:
            raise BadInput("there is no srun on this machine", hint="start in a SLURM allocation")
        one_each = ["--nodes", str(self.nodes), "--ntasks-per-node", "1"]
        return ["srun", *one_each, "--kill-on-bad-exit=1", "--label", "--unbuffered"]

    def _meeting(self) -> Sequence[str]:
        job, head = settings.slurm_job(), settings.slurm_head()
        if job is None or head is None:
            raise BadInput(
                "this is no SLURM allocation",
                hint=f"salloc or sbatch with --nodes {self.nodes} first",
            )
        place = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{head}:{PORT}", "--rdzv-id", job]
        return ["--nnodes", str(self.nodes), *place]


HERE = Launch()
"""One process on this machine."""
