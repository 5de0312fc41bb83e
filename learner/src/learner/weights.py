"""Publishing a policy version: a folder that engines can load, and its announcement.

<run>/weights/<number>/    config.json, model.safetensors, tokenizer files
"""

import random
from collections.abc import Callable
from pathlib import Path

import grpc
from envfarm.errors import WIRE, EngineError, EnvfarmError, from_rpc
from envfarm.v1 import gateway_service_pb2, gateway_service_pb2_grpc, policy_pb2
from torch import Tensor

from learner import served_folder
from learner.files import discard_folder

FOLDER = "weights"
RETRY_SECONDS = 0.5


def export(
    run_dir: Path, weights: dict[str, Tensor], origin: Path, number: int, keep: int
) -> tuple[Path, str]:
    """Write version `number`; returns its folder and weights hash. Keeps the newest `keep`."""
    final = run_dir / FOLDER / str(number)
    digest = served_folder.write(final, weights, origin)
    _prune(final.parent, newest=number, keep=keep)
    return final, digest


def probe_tokens(count: int, vocabulary: int, seed: int) -> list[int]:
    """A fixed prompt that touches much of the vocabulary."""
    generator = random.Random(seed)
    return [generator.randrange(vocabulary) for _ in range(count)]


class Announcer:
    """The gateway's door, seen from the learner."""

    def __init__(
        self,
        address: str,
        token: str,
        *,
        deadline_seconds: float,
        give_up_seconds: float,
        wait: Callable[[float], bool],
        clock: Callable[[], float],
    ):
        """`wait(seconds)` sleeps and answers whether to stop waiting."""
        self._address = address
        self._metadata = (("authorization", f"Bearer {token}"),)
        self._deadline = deadline_seconds
        self._give_up = give_up_seconds
        self._wait, self._clock = wait, clock

    def announce(self, update: policy_pb2.WeightUpdate) -> float | None:
        """Put the version into service; returns the probe's largest gap, None if told to stop.

        The same version again is a no-op at the gateway, so a lost answer is asked for again.
        Raises what the gateway raised (FencedError, VersionMismatch, …), EngineError when it stays
        away for `give_up_seconds`.
        """
        request = gateway_service_pb2.AnnouncePolicyRequest(update=update)
        number = update.version.number
        end = self._clock() + self._give_up
        while True:
            error = None
            # A channel per try: a restarted gateway is found at once, without a stale backoff.
            with grpc.insecure_channel(self._address) as channel:
                stub = gateway_service_pb2_grpc.GatewayServiceStub(channel)
                try:
                    answer = stub.AnnouncePolicy(
                        request, timeout=self._deadline, metadata=self._metadata
                    )
                    return answer.max_logprob_gap
                except grpc.RpcError as failure:
                    error = from_rpc(
                        failure,
                        EngineError,
                        f"announcing policy version {number} to the gateway at {self._address}",
                    )
                    if not _may_pass(failure, error):
                        raise error from failure
            if self._clock() >= end:
                raise error
            if self._wait(RETRY_SECONDS):
                return None


def _may_pass(failure: grpc.RpcError, error: EnvfarmError) -> bool:
    code = getattr(failure, "code", lambda: None)()
    passing = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    return WIRE[type(error)].retryable and code in (*passing, grpc.StatusCode.RESOURCE_EXHAUSTED)


def _prune(folder: Path, *, newest: int, keep: int) -> None:
    numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
    for number in numbers:
        if number <= newest - keep:
            discard_folder(folder / str(number))
