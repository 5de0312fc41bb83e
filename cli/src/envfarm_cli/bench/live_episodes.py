"""How many episodes were live at once, as the env-server told while a job ran."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import grpc
from envfarm.v1 import env_service_pb2, env_service_pb2_grpc

from envfarm_cli.gateway_client import CALL_SECONDS


@dataclass
class LiveEpisodes:
    """Made by `counting`."""

    stub: env_service_pb2_grpc.EnvServiceStub
    token: str
    most: int = 0
    """The most that any look has seen."""

    def look(self) -> None:
        found = self.stub.GetCapacity(
            env_service_pb2.GetCapacityRequest(),
            metadata=[("authorization", f"Bearer {self.token}")],
            timeout=CALL_SECONDS,
        )
        self.most = max(self.most, found.live_episodes)


@contextmanager
def counting(address: str, token: str) -> Iterator[LiveEpisodes]:
    """`address` is the env-server's gRPC door, `token` its infrastructure token."""
    with grpc.insecure_channel(address) as channel:
        yield LiveEpisodes(env_service_pb2_grpc.EnvServiceStub(channel), token)
