"""Policy versions: which may come into service, which one is, and that a restart remembers it.

A version is the triple run, number, weights hash. A number that was announced keeps its hash, until
a learner of a later epoch goes back to an earlier number: then the numbers above are abandoned and
may come again with other weights. An older learner, one that lost its lease, is refused.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envfarm.errors import FencedError, InvalidArgument
from envfarm.v1 import policy_pb2
from envfarm_common import logging
from envfarm_common.metrics import Instruments
from google.protobuf import json_format

from rollout_gateway.files import read_json, write_json
from rollout_gateway.policy import Policy, label_of

log = logging.get(__name__)


@dataclass(slots=True)
class RunVersions:
    """What one run has announced."""

    epoch: int = 0
    hashes: dict[int, str] = field(default_factory=dict)

    def admit(self, update: policy_pb2.WeightUpdate) -> None:
        """Note the version; FencedError when its learner or its hash may not come."""
        number, digest = update.version.number, update.version.weights_hash
        if update.learner_epoch < self.epoch:
            raise FencedError(
                f"version {number} comes from learner epoch {update.learner_epoch}, "
                f"epoch {self.epoch} was here already",
                hint="another learner holds the lease; stop this one",
            )
        known = self.hashes.get(number)
        if known is not None and known != digest:
            raise FencedError(
                f"version {number} was announced with weights {known[:12]}, now with {digest[:12]}",
                hint="resume from the checkpoint that published it, or start a new run",
            )
        if update.learner_epoch > self.epoch and known is not None:
            self.hashes = {n: h for n, h in self.hashes.items() if n <= number}
        self.epoch = update.learner_epoch
        self.hashes[number] = digest


class Versions:
    """Announcements, one at a time, on top of `Policy`; state in one file."""

    def __init__(self, policy: Policy, path: Path, instruments: Instruments):
        self._policy = policy
        self._path = path
        self._instruments = instruments
        self._lock = asyncio.Lock()
        self._runs: dict[str, RunVersions] = {}
        self._target: policy_pb2.WeightUpdate | None = None
        self._proved = False
        self._gap = 0.0
        self._holds: dict[str, policy_pb2.PolicyVersion] = {}
        self._released = asyncio.Condition()
        self._restore()

    @property
    def in_service(self) -> policy_pb2.PolicyVersion | None:
        """The version that was announced last and proved; None while there is none."""
        return self._target.version if self._target is not None and self._proved else None

    def version(self, run_id: str, number: int) -> policy_pb2.PolicyVersion | None:
        """The whole triple; None when the run has no such version, or abandoned it."""
        digest = self._runs[run_id].hashes.get(number) if run_id in self._runs else None
        if digest is None:
            return None
        return policy_pb2.PolicyVersion(run_id=run_id, number=number, weights_hash=digest)

    @asynccontextmanager
    async def hold(
        self, holder: str, version: policy_pb2.PolicyVersion | None
    ) -> AsyncIterator[None]:
        """Once `version` is in service it stays there until the end of the block.

        It may be asked for before it comes; without a hash any weights of the number are meant.
        None holds nothing.
        """
        if version is not None:
            self._holds[holder] = version
        try:
            yield
        finally:
            async with self._released:
                self._holds.pop(holder, None)
                self._released.notify_all()

    def is_held(self, holder: str) -> bool:
        """Whether the version in service is the one that `holder` asked for."""
        wanted, version = self._holds.get(holder), self.in_service
        return (
            wanted is not None
            and version is not None
            and (wanted.run_id, wanted.number) == (version.run_id, version.number)
            and wanted.weights_hash in ("", version.weights_hash)
        )

    async def announce(
        self, update: policy_pb2.WeightUpdate
    ) -> tuple[policy_pb2.PolicyVersion, float, float]:
        """Put `update` into service; returns it with the probe's gap and the seconds it took.

        Raises InvalidArgument, FencedError, VersionMismatch, EngineError. After a mismatch nothing
        is sampled until the next announcement succeeds.
        """
        _check(update)
        async with self._lock:
            started = time.monotonic()
            version = update.version
            run = self._runs.setdefault(version.run_id, RunVersions())
            run.admit(update)
            if self.in_service == version and self._policy.is_serving:
                self._save()
                return version, self._gap, 0.0
            if self.in_service != version:
                await self._until_released()
            self._target, self._proved = update, False
            self._save()
            self._gap = await self._policy.put_into_service(update, self._labels(version.run_id))
            self._proved = True
            self._save()
            seconds = time.monotonic() - started
            self._instruments.set("envfarm_policy_version", version.number)
            self._instruments.set("envfarm_probe_logprob_gap", self._gap)
            self._instruments.observe("envfarm_policy_publish_seconds", seconds)
            return version, self._gap, seconds

    async def _until_released(self) -> None:
        holders = [holder for holder in self._holds if self.is_held(holder)]
        if holders:
            log.info("new weights wait for jobs at the version in service", jobs=holders)
        async with self._released:
            await self._released.wait_for(lambda: not any(map(self.is_held, self._holds)))

    def _labels(self, run_id: str) -> dict[str, int]:
        version = policy_pb2.PolicyVersion
        return {
            label_of(version(number=number, weights_hash=digest)): number
            for number, digest in self._runs[run_id].hashes.items()
        }

    def _restore(self) -> None:
        state: dict[str, Any] = read_json(self._path) or {}
        for run_id, run in state.get("runs", {}).items():
            hashes = {int(number): digest for number, digest in run["hashes"].items()}
            self._runs[run_id] = RunVersions(epoch=run["epoch"], hashes=hashes)
        if state.get("target") is None:
            return
        self._target = json_format.ParseDict(state["target"], policy_pb2.WeightUpdate())
        self._proved, self._gap = state["proved"], state["gap"]
        # Unproved, it is still the one to reach: the engines may have loaded it already.
        self._policy.resume(self._target, self._labels(self._target.version.run_id))
        if self._proved:
            self._instruments.set("envfarm_policy_version", self._target.version.number)

    def _save(self) -> None:
        target = self._target
        write_json(
            self._path,
            {
                "runs": {
                    run_id: {"epoch": run.epoch, "hashes": run.hashes}
                    for run_id, run in self._runs.items()
                },
                "target": json_format.MessageToDict(target) if target is not None else None,
                "proved": self._proved,
                "gap": self._gap,
            },
        )


def _check(update: policy_pb2.WeightUpdate) -> None:
    version, probe = update.version, update.probe
    if not version.run_id or not version.weights_hash:
        raise InvalidArgument("a policy version needs run_id and weights_hash")
    if not Path(update.path).is_absolute():
        raise InvalidArgument(f"the weights' path must be absolute, not {update.path!r}")
    if len(probe.token_ids) < 2 or len(probe.logprobs) != len(probe.token_ids) - 1:
        raise InvalidArgument(
            f"the probe has {len(probe.token_ids)} tokens and {len(probe.logprobs)} "
            "log-probabilities; wanted T >= 2 and T - 1"
        )
    if not probe.tolerance > 0:
        raise InvalidArgument("the probe's tolerance must be above 0")
