"""Reading what a gateway recorded: from its files, or over its HTTP door.

`<gateway state>/jobs/<job>/records.bin` holds frames: kind (1 byte), length (4 bytes, big endian),
a protobuf message. Half a frame at the end is one that is being written.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
from envfarm.v1 import group_pb2
from google.protobuf import json_format

from envfarm_cli.failure import BadInput, Failure, NotRunning
from envfarm_cli.state_dir import StateDir

HEAD = struct.Struct(">BI")
ROLLOUT, FAILURE, OUTCOME = 1, 2, 3


def load_rollout(
    wanted: str, state: StateDir, *, gateway: str = "", token: str = "", records: Path | None = None
) -> group_pb2.Rollout:
    """The attempt of that rollout or episode id; BadInput when there is none."""
    if gateway:
        return fetch_rollout(gateway, token, wanted)
    folder = records or state.path / "gateway"
    if not (folder / "jobs").is_dir():
        raise NotRunning(
            f"no attempt was recorded in {folder}",
            hint="name another folder with --state-dir or --records, or a gateway with --gateway",
        )
    last = ""
    for rollout in rollouts(folder):
        if wanted in (rollout.rollout_id, rollout.episode_id):
            return rollout
        last = rollout.rollout_id
    raise BadInput(
        f"there is no attempt {wanted!r} in {folder}",
        hint=f"the last one is {last}" if last else "none was recorded yet",
    )


def fetch_rollout(gateway: str, token: str, rollout_id: str) -> group_pb2.Rollout:
    """GET /v1/rollouts/{id}."""
    answer = httpx.get(
        f"{gateway.rstrip('/')}/v1/rollouts/{quote(rollout_id, safe='')}",
        headers={"authorization": f"Bearer {token}"},
        timeout=30,
        trust_env=False,
    )
    if answer.status_code != 200:
        raise _refusal(gateway, answer)
    body = answer.json()
    return json_format.ParseDict(
        body.get("rollout", body), group_pb2.Rollout(), ignore_unknown_fields=True
    )


def rollouts(folder: Path, job: str = "*") -> Iterator[group_pb2.Rollout]:
    """All attempts of a job, or of all jobs, in the order in which they ended."""
    for kind, message in frames(folder, job):
        if kind == ROLLOUT:
            yield group_pb2.Rollout.FromString(message)


def outcomes(folder: Path, job: str = "*") -> Iterator[group_pb2.GroupOutcome]:
    """One per scheduled group that has ended."""
    for kind, message in frames(folder, job):
        if kind == OUTCOME:
            yield group_pb2.GroupOutcome.FromString(message)


def frames(folder: Path, job: str) -> Iterator[tuple[int, bytes]]:
    for path in sorted(folder.glob(f"jobs/{job}/records.bin")):
        with path.open("rb") as source:
            while len(head := source.read(HEAD.size)) == HEAD.size:
                kind, length = HEAD.unpack(head)
                message = source.read(length)
                if len(message) < length:
                    break
                yield kind, message


def _refusal(gateway: str, answer: httpx.Response) -> Failure:
    try:
        problem = answer.json()
        detail = str(problem.get("detail", problem))
        hint = str(problem.get("hint", ""))
    except (ValueError, AttributeError):
        detail, hint = answer.text[:200], ""
    if answer.status_code in (401, 403):
        hint = hint or "give the gateway's infrastructure token with --token"
    kind = BadInput if answer.status_code in (401, 403, 404, 422) else Failure
    return kind(f"{gateway}: {detail}", hint=hint)
