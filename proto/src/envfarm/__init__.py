"""Contracts of envfarm: stubs, ids, errors, stream names, metrics. Depends on protobuf and grpcio."""

import os

# With gRPC's fork handlers every tenth child that uvloop forks beside running calls dies of a
# segmentation fault; gRPC reads this when it is imported, and every program of ours imports us first.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # noqa: TID251
