"""The ranks of one learner: joined from the launcher's environment, or a group of one."""

import sys
from contextlib import redirect_stdout
from datetime import timedelta

import torch
import torch.distributed as dist
from envfarm.errors import LearnerError
from torch._C._distributed_c10d import HashStore

from learner import settings

with redirect_stdout(sys.stderr):
    import deepspeed

RANK_SECONDS = 60.0
"""A rank that is silent for this long within a collective is taken for dead."""


def join() -> None:
    """Join the process group; torchrun's or DeepSpeed's launcher sets the environment of more."""
    if dist.is_initialized():
        return
    launched = settings.launched()
    backend = "cuda:nccl,cpu:gloo" if torch.cuda.is_available() else "gloo"
    timeout = timedelta(seconds=RANK_SECONDS)
    if launched is None:
        # A process group without a port: DeepSpeed takes over the one that torch has.
        dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1, timeout=timeout)
    else:
        try:
            dist.init_process_group(backend, init_method="env://", timeout=timeout)
        except (RuntimeError, ValueError) as error:
            raise LearnerError(
                f"rank {launched.rank} of {launched.ranks} cannot join the others: "
                f"{str(error).splitlines()[0]}"
            ) from error
    settings.declare_local_rank()
    settings.find_built_ops()
    # gloo does without the op that shares memory between ranks of one machine.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # pyright: ignore[reportAttributeAccessIssue]
    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False)


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def ranks() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def barrier() -> None:
    if ranks() > 1:
        dist.barrier()


def total(value: float) -> float:
    """The sum of every rank's value, in float64."""
    return _reduced(value, dist.ReduceOp.SUM)


def highest(value: float) -> float:
    """The largest of every rank's value."""
    return _reduced(value, dist.ReduceOp.MAX)


def _reduced(value: float, operation: dist.ReduceOp.RedOpType) -> float:
    if ranks() == 1:
        return value
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor, op=operation)
    return float(tensor)
