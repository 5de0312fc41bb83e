"""Runs the contract suite on back end `container`, where ENVFARM_CONTAINER_IMAGE names an image.

ENVFARM_CONTAINER_IMAGE=postgres:18.6 pytest tests/integration/env_server/test_episode_contract.py
"""

import os

CONTAINER_IMAGE = os.environ.get("ENVFARM_CONTAINER_IMAGE", "")


def docker_host() -> str:
    """The engine's socket, for a process that is started with an environment of its own."""
    named = os.environ.get("DOCKER_HOST", "")
    return named if named.startswith("unix://") else ""
