"""Which policy version is in service: prepare the next one, announce it, check the probe.

The version's number and hash enter the progress when its weights are written, so the checkpoint
that follows holds them and a learner that dies before the announcement makes it at its next start.
"""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from envfarm.errors import CheckpointError, VersionMismatch
from envfarm.v1 import policy_pb2

from learner import weights
from learner.checkpoint import Progress
from learner.config import Config
from learner.files import remove_leftovers, write_durably
from learner.lease import Lease
from learner.metrics import LearnerMetrics
from learner.trainee import Trainee
from learner.weights import Announcer

READY = "ready.json"
"""In the run's folder while a learner lives: its pid, epoch and the version in service."""


@dataclass(kw_only=True)
class Publication:
    config: Config
    trainee: Trainee
    announcer: Announcer
    lease: Lease
    metrics: LearnerMetrics
    progress: Progress

    def announce_own_version(self) -> None:
        """Announce the weights that this learner stands on, before it takes anything."""
        progress = self.progress
        remove_leftovers(self.config.run.dir / weights.FOLDER)
        expected = progress.policies.get(progress.version)
        folder, digest = self._export(progress.version)
        if expected not in (None, digest):
            raise CheckpointError(
                f"the checkpoint's weights have the hash {digest[:12]}…, but version "
                f"{progress.version} was published as {str(expected)[:12]}…"
            )
        progress.policies[progress.version] = digest
        self.announce(self._update(folder, digest))

    def prepare(self) -> policy_pb2.WeightUpdate:
        """Write the next version's weights; from here on the learner counts as being at it."""
        self.lease.check()
        progress = self.progress
        folder, digest = self._export(progress.version + 1)
        progress.version += 1
        progress.policies[progress.version] = digest
        progress.unpublished_steps = 0
        return self._update(folder, digest)

    def announce(self, update: policy_pb2.WeightUpdate) -> None:
        """Put a version into service. Raises VersionMismatch when engines answer the probe with
        other log-probabilities than the learner, and what the gateway raises."""
        started, number = time.monotonic(), update.version.number
        self.lease.check()
        with self.metrics.at("publish"):
            gap = self.announcer.announce(update)
        if gap is None:  # told to stop while the gateway was away
            return
        tolerance = self.config.publish.probe_tolerance
        if not gap <= tolerance:
            raise VersionMismatch(
                f"engines answer the probe of policy version {number} with a gap of {gap:.3g} nats "
                f"(allowed: {tolerance:.3g})"
            )
        self.metrics.version(number)
        self.metrics.phase("publish", time.monotonic() - started)
        facts = {"pid": os.getpid(), "epoch": self.lease.epoch, "version": number}
        write_durably(self.config.run.dir / READY, json.dumps(facts).encode())

    def _export(self, number: int) -> tuple[Path, str]:
        run, whole = self.config.run, self.trainee.weights()
        return weights.export(run.dir, whole, self.config.model.path, number, run.keep_weights)

    def _update(self, folder: Path, digest: str) -> policy_pb2.WeightUpdate:
        """The announcement of `folder`, with the probe answered by the weights at hand."""
        publish, config = self.config.publish, self.config
        tokens = weights.probe_tokens(publish.probe_tokens, self.trainee.vocabulary, config.seed)
        return policy_pb2.WeightUpdate(
            version=policy_pb2.PolicyVersion(
                run_id=config.run.id, number=self.progress.version, weights_hash=digest
            ),
            path=str(folder.resolve()),
            probe=policy_pb2.ProbePrompt(
                token_ids=tokens,
                logprobs=self.trainee.probe(tokens),
                tolerance=publish.probe_tolerance,
            ),
            learner_epoch=self.lease.epoch,
        )
