"""The ranks of one learner: joined from the launcher's environment, or a group of one."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from envfarm.errors import LearnerError
from numpy.typing import NDArray
from torch._C._distributed_c10d import HashStore

from learner import settings

with redirect_stdout(sys.stderr):
    import deepspeed

RANK_SECONDS = 7200.0
"""A rank that is silent for this long within a collective is taken for dead; one that died is
noticed at once, by its connections."""
_GONE = ("connection", "timed out", "timeout", "broken pipe", "peer", "socket")


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


def gathered(values: torch.Tensor) -> torch.Tensor:
    """[sum of lengths] every rank's 1-D float32 values, on every rank, in rank order."""
    if ranks() == 1:
        return values
    most = int(highest(len(values)))
    padded = torch.full((most + 1,), float("nan"))
    padded[: len(values)] = values
    padded[most] = len(values)
    parts = [torch.zeros(most + 1) for _ in range(ranks())]
    dist.all_gather(parts, padded)
    return torch.cat([part[: int(part[most])] for part in parts])


def broadcast(values: NDArray) -> NDArray:
    """Rank 0's values on every rank; the others pass an array of the same shape to fill."""
    if ranks() == 1 or not values.size:
        return values
    tensor = torch.from_numpy(np.array(values))
    dist.broadcast(tensor, src=0)
    return tensor.numpy()


def said(text: str) -> list[str]:
    """What every rank says, in order of ranks."""
    if ranks() == 1:
        return [text]
    data = text.encode()
    most = int(highest(len(data)))
    padded = torch.zeros(most + 8, dtype=torch.uint8)
    padded[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    padded[most:] = torch.frombuffer(bytearray(len(data).to_bytes(8, "big")), dtype=torch.uint8)
    parts = [torch.zeros_like(padded) for _ in range(ranks())]
    dist.all_gather(parts, padded)
    whole = [bytes(part.tolist()) for part in parts]
    return [part[: int.from_bytes(part[most:], "big")].decode() for part in whole]


def average_gradients(parameters: list[torch.nn.Parameter]) -> None:
    """Replace every gradient by its mean over the ranks, all in one message a dtype."""
    if ranks() == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    for dtype in dict.fromkeys(gradient.dtype for gradient in gradients):
        some = [gradient for gradient in gradients if gradient.dtype == dtype]
        flat = torch.cat([gradient.flatten() for gradient in some])
        dist.all_reduce(flat)
        flat /= ranks()
        for gradient, mean in zip(some, flat.split([g.numel() for g in some]), strict=True):
            gradient.copy_(mean.view_as(gradient))


@contextmanager
def attributed() -> Iterator[None]:
    """A collective that another rank did not take part in is that rank's end, said in one line."""
    try:
        yield
    except (RuntimeError, dist.DistError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        if ranks() == 1 or not any(word in str(error).lower() for word in _GONE):
            raise
        raise LearnerError(
            f"rank {rank()} of {ranks()} has lost another rank: {text}",
            hint="see that rank's last lines; start again, the run goes on from its last checkpoint",
        ) from error
