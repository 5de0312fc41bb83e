"""Contracts of envfarm: stubs, ids, errors, stream names, metrics. Depends on protobuf and grpcio."""
