"""What a learner does to the gateway: takes groups in stream order, announces a version per update."""

from dataclasses import dataclass, field

from envfarm import streams
from envfarm.v1 import group_pb2

from tests.integration.gateway.conftest import Farm

CHECKED_EVERY_SECONDS = 0.02


@dataclass
class LearnerStandIn:
    """Admits and refuses as the real one does; `versions` are numbers with their digests."""

    farm: Farm
    per_update: int
    staleness: int = 1
    version: int = 0
    trained: list[group_pb2.Group] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    _taken: list[group_pb2.Group] = field(default_factory=list)

    @staticmethod
    def digest(number: int) -> str:
        return f"{number:064x}"

    async def announce(self) -> None:
        await self.farm.announce(number=self.version, digest=self.digest(self.version))

    def take(self) -> None:
        """Everything that is on the stream and was not taken before."""
        client, stream = self.farm.stream.client, streams.group_stream("run")
        if not client.exists(stream):
            return
        if not client.xinfo_groups(stream):
            client.xgroup_create(stream, streams.CONSUMER_GROUP, id="0")
        answer = client.xreadgroup(streams.CONSUMER_GROUP, "me", {stream: ">"}, count=100)
        for _, entries in answer or ():  # pyright: ignore
            for _, fields in entries:
                data = client.get(fields[b"store_key"])
                self._taken.append(group_pb2.Group.FromString(data))  # pyright: ignore

    def refuse(self, group_id: str, reason: str = "stale") -> None:
        self.refused.append(group_id)
        self.farm.stream.client.hset(streams.dropped_ids("run"), group_id, reason)

    async def train(self) -> bool:
        """One update, if there are groups enough; announces the next version."""
        self.take()
        batch: list[group_pb2.Group] = []
        for group in list(self._taken):
            if len(batch) == self.per_update:
                break
            self._taken.remove(group)
            versions = [
                span.version_number for r in group.rollouts for span in r.trajectory.version_spans
            ]
            if self.version - min(versions) > self.staleness:
                self.refuse(group.group_id)
            else:
                batch.append(group)
        if len(batch) < self.per_update:
            self._taken[:0] = batch
            return False
        self.trained += batch
        self.version += 1
        await self.announce()
        return True
