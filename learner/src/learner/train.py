"""The training loop: take → admit → advantage → batch → loss → step → checkpoint → acknowledge →
publish.

One optimizer step per batch of `groups_per_update` groups. A batch without any advantage makes no
gradient: it counts as an update and is published under the next number with unchanged weights, so
that whoever waits for a new version is not kept waiting, but the optimizer does not move (its
momentum would drift).
"""

import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from envfarm.errors import BadGroup, VersionMismatch

from learner import checkpoint, step_record
from learner.admission import Reason, Rules, admit
from learner.batch import Batch, make_batch
from learner.checkpoint import Progress
from learner.config import Config
from learner.control import permuted
from learner.group import TakenGroup
from learner.lease import Lease
from learner.ledger import BAD, DUPLICATE, TRAINED, Ledger, Record
from learner.metrics import LearnerMetrics
from learner.publication import Publication
from learner.stream import Entry, GroupStream
from learner.tracing import Traces
from learner.trainee import Trainee

Taken = list[tuple[Entry, TakenGroup]]


@dataclass(kw_only=True)
class Trainer:
    """The parts of a run; `train` drives them."""

    config: Config
    trainee: Trainee
    stream: GroupStream
    lease: Lease
    publication: Publication
    metrics: LearnerMetrics
    traces: Traces
    ledger: Ledger
    progress: Progress
    stop: threading.Event

    def train(self) -> None:
        """Run to `updates`, or to the end of the update in hand once `stop` is set."""
        config, progress = self.config, self.progress
        self.publication.announce_own_version()
        self.ledger.copy_to(config.run.dir / checkpoint.LEDGER)
        self._recover()
        while progress.update < config.run.updates and not self.stop.is_set():
            started = time.monotonic()
            with self.metrics.at("wait"):
                taken = self.take()
            if taken is None:
                break
            self.metrics.phase("wait", time.monotonic() - started)
            batch = make_batch([group for _, group in taken], config.algorithm)
            self.step(batch, taken)
            update = self.publication.prepare() if self._due(config.publish.every) else None
            if self._due(config.run.checkpoint_every):
                self.checkpoint_and_acknowledge()
            if update is not None:
                self.publication.announce(update)
        if self.ledger.waiting():
            self.checkpoint_and_acknowledge()

    # take, admit

    def take(self) -> Taken | None:
        """`groups_per_update` admitted groups in stream order; None when told to stop first."""
        taken: Taken = []
        wanted = self.config.batch.groups_per_update
        while len(taken) < wanted:
            if len(self.ledger.waiting()) >= self.config.stream.retained_groups:
                self.checkpoint_and_acknowledge()
                # The checkpoint may have made a version, and what was at the limit is past it now.
                taken = [(entry, group) for entry, group in taken if self._passes(entry, group)]
            entry = self.stream.next(wanted - len(taken), self.stop.is_set)
            if entry is None:
                return None
            settled = self.ledger.settled(entry.entry_id)
            if settled is not None:  # its checkpoint was durable, its acknowledgement was lost
                self.stream.acknowledge([settled])
            elif self.ledger.has_ended(entry.group_id) or any(
                group.group_id == entry.group_id for _, group in taken
            ):
                self._record(entry, DUPLICATE, "", None)
            elif (group := self._admitted(entry)) is not None:
                taken.append((entry, group))
        return taken

    def _admitted(self, entry: Entry) -> TakenGroup | None:
        try:
            group = self.stream.fetch(entry)
        except BadGroup as error:
            self._bury(entry, error.message, None)
            return None
        self.traces.arrived(group)
        if not self._passes(entry, group):
            return None
        return permuted(group, self.config.seed) if self.config.control else group

    def _passes(self, entry: Entry, group: TakenGroup) -> bool:
        """Whether it may be trained on now; if not, its fate is recorded."""
        rules = Rules(
            run_id=self.config.run.id,
            group_size=self.config.batch.group_size,
            max_tokens=self.config.model.max_tokens,
            vocabulary=self.trainee.vocabulary,
            staleness=self.config.admission.staleness,
            sampling_hash=self.config.sampling.hash,
        )
        reason = admit(group, rules, self.progress.version, self.progress.policies)
        if reason is None:
            return True
        if reason.fate == BAD:
            self._bury(entry, reason.value, group)
        else:
            self._record(entry, reason.fate, _staleness(reason, group, self.progress), group)
        return False

    def _bury(self, entry: Entry, reason: str, group: TakenGroup | None) -> None:
        self.stream.bury(entry, reason)
        self._record(entry, BAD, reason, group)

    def _record(self, entry: Entry, fate: str, reason: str, group: TakenGroup | None) -> None:
        self.ledger.add(
            Record(
                entry_id=entry.entry_id,
                group_id=entry.group_id,
                fate=fate,
                reason=reason,
                update=self.progress.update + 1,
                store_key=entry.store_key,
            )
        )
        self.metrics.taken(fate, group)
        if group is not None:
            self.traces.ended(group, fate, self.progress.update + 1)
        if fate not in (TRAINED, DUPLICATE):
            self.stream.report_dropped(entry, reason)

    # loss, step

    def step(self, batch: Batch, taken: Taken) -> None:
        """One update: gradients, the check against the engines, the optimizer, the record."""
        progress = self.progress
        same_weights = progress.unpublished_steps == 0
        with self.metrics.at("gradients"):
            result = self.trainee.forward_backward(
                batch.work, progress.version if same_weights else None
            )
        tolerance = self.config.admission.mismatch_tolerance
        if not result.mismatch_gap <= tolerance:  # NaN is no agreement
            raise self._alarm(taken, result.mismatch_gap)
        self.metrics.phase("forward", result.forward_seconds)
        self.metrics.phase("backward", result.backward_seconds)
        self.lease.check()
        started, norm = time.monotonic(), 0.0
        if batch.has_signal:
            with self.metrics.at("optimizer"):
                norm = self.trainee.step(progress.update)
            progress.unpublished_steps += 1
        self.metrics.phase("optimizer", time.monotonic() - started)
        for entry, group in taken:
            self._record(entry, TRAINED, "", group)
        progress.update += 1
        line = step_record.record(
            update=progress.update,
            version=progress.version,
            epoch=self.lease.epoch,
            taken=[group for _, group in taken],
            batch=batch,
            result=result,
            grad_norm=norm,
            rate=self.config.learning_rate(progress.update - 1) if batch.has_signal else 0.0,
            seconds=self.metrics.taken_seconds(),
        )
        self.metrics.step(line)
        print(step_record.shown(line, self.config.run.updates), file=sys.stderr, flush=True)

    def _alarm(self, taken: Taken, gap: float) -> VersionMismatch:
        """The error that ends the run; its groups are put away, or every start would end on them."""
        found = f"engine and learner differ by {gap:.3g} nats"
        for entry, group in taken:
            self._bury(entry, found, group)
        self.checkpoint_and_acknowledge()
        return VersionMismatch(
            f"{found} on tokens of policy version {self.progress.version} (allowed: "
            f"{self.config.admission.mismatch_tolerance:.3g}); no step was made, and {len(taken)} "
            "groups are dead letters",
            hint="look whether the engines loaded the version that they name; then start again",
        )

    # checkpoint, acknowledge

    def checkpoint_and_acknowledge(self) -> None:
        """Make everything done so far durable, then settle the entries that it used.

        A checkpoint always stands on a version: one that is cut early gives its weights a number.
        """
        update = self.publication.prepare() if self.progress.unpublished_steps else None
        started = time.monotonic()
        self.lease.check()
        with self.metrics.at("checkpoint"):
            checkpoint.save(
                checkpoints(self.config.run.dir),
                self.trainee,
                self.progress,
                self.ledger,
                recipe_hash=self.config.recipe_hash(),
                epoch=self.lease.epoch,
                keep=self.config.run.keep_checkpoints,
            )
        settled = self.ledger.mark_durable()
        self.ledger.copy_to(self.config.run.dir / checkpoint.LEDGER)
        self.stream.acknowledge(settled)
        self.metrics.phase("checkpoint", time.monotonic() - started)
        if update is not None:
            self.publication.announce(update)

    def _recover(self) -> None:
        for entry_id in self.stream.recover():
            self._bury(Entry(entry_id=entry_id, fields={}), "removed from the stream", None)

    def _due(self, every: int) -> bool:
        return self.progress.update % every == 0


def checkpoints(run_dir: Path) -> Path:
    return run_dir / "checkpoints"


def _staleness(reason: Reason, group: TakenGroup, progress: Progress) -> str:
    if reason is Reason.STALE:
        return f"sampled from version {group.oldest_version()}, learner at {progress.version}"
    return f"version {group.policy_number} as {group.policy_hash[:12]}… is not this run's"
