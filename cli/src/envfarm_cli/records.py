"""Reading what a gateway recorded: from its files, or over its HTTP door.

`<gateway state>/jobs/<job>/conversations.jsonl` holds attempts as people read them. `records.bin`
beside it holds frames: kind (1 byte), length (4 bytes, big endian), a protobuf message; half a
frame at the end is one that is being written.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from envfarm.v1 import group_pb2

from envfarm_cli.failure import BadInput, Failure, NotRunning
from envfarm_cli.state_dir import StateDir

HEAD = struct.Struct(">BI")
ATTEMPT_KEYS = ("rollout_id", "episode_id")
_DAMAGED = "the file is damaged; remove that line, or name a gateway with --gateway"
OUTCOME = 3
"""Kind of a frame that holds a GroupOutcome."""


def load_attempt(
    wanted: str, state: StateDir, *, gateway: str = "", token: str = "", records: Path | None = None
) -> dict[str, Any]:
    """The readable form of the attempt with that rollout or episode id; BadInput when there is
    none."""
    if gateway:
        return fetch_attempt(gateway, token, wanted)
    folder = records or state.path / "gateway"
    if not (folder / "jobs").is_dir():
        raise NotRunning(
            f"no attempt was recorded in {folder}",
            hint="name another folder with --state-dir or --records, or a gateway with --gateway",
        )
    last = ""
    for attempt in attempts(folder):
        if wanted in (attempt["rollout_id"], attempt["episode_id"]):
            return attempt
        last = attempt["rollout_id"]
    raise BadInput(
        f"there is no attempt {wanted!r} in {folder}",
        hint=f"the last one is {last}" if last else "none was recorded yet",
    )


def fetch_attempt(gateway: str, token: str, rollout_id: str) -> dict[str, Any]:
    """GET /v1/rollouts/{id}."""
    try:
        answer = httpx.get(
            f"{gateway.rstrip('/')}/v1/rollouts/{quote(rollout_id, safe='')}",
            headers={"authorization": f"Bearer {token}"},
            timeout=30,
            trust_env=False,
        )
    except httpx.InvalidURL as error:
        raise BadInput(
            f"--gateway {gateway}: {error}", hint="write it as http://HOST:PORT"
        ) from error
    if answer.status_code != 200:
        raise refusal(gateway, answer)
    return _attempt(gateway, answer.content, hint="see that this is the address of a gateway")


def attempts(folder: Path, job: str = "*") -> Iterator[dict[str, Any]]:
    """All attempts of a job, or of all jobs, in the order in which they ended."""
    for path in sorted(folder.glob(f"jobs/{job}/conversations.jsonl")):
        with path.open("rb") as source:
            # A line without its end is being written.
            whole = (line for line in source if line.endswith(b"\n"))
            for number, line in enumerate(whole, 1):
                yield _attempt(f"{path}:{number}", line, hint=_DAMAGED)


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


def _attempt(where: str, text: bytes, *, hint: str) -> dict[str, Any]:
    """BadInput that says where when it is no attempt."""
    try:
        found = json.loads(text)
        for key in ATTEMPT_KEYS:
            found[key]
    except (ValueError, KeyError, TypeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise BadInput(f"{where}: not a recorded attempt: {reason}", hint=hint) from error
    return found


def refusal(gateway: str, answer: httpx.Response) -> Failure:
    """What a gateway answered instead of what it was asked for."""
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
