"""The gateway's jobs over HTTP: submit, look, follow, cancel, resume."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

import httpx

from envfarm_cli.failure import BadInput, Failure, NotRunning
from envfarm_cli.records import refusal
from envfarm_cli.state_dir import StateDir

CALL_SECONDS = 30.0
SILENT_SECONDS = 45.0
"""The gateway says something every 15 s, also when nothing happens."""
RETRY_SECONDS = 1.0
GONE_SECONDS = 60.0
"""How long a gateway that went away is waited for: a restart goes on with its jobs."""

Job = dict[str, Any]
"""JobStatus as JSON."""


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    """status, group or end; lost when the gateway does not answer."""
    data: dict[str, Any]


class JobsDoor:
    """`with JobsDoor(url, token) as door`. Errors are Failures that name the gateway."""

    def __init__(self, url: str, token: str):
        self.url = url.rstrip("/")
        headers = {"authorization": f"Bearer {token}"}
        try:
            self._client = httpx.Client(
                base_url=self.url, headers=headers, timeout=CALL_SECONDS, trust_env=False
            )
        except httpx.InvalidURL as error:
            raise BadInput(
                f"--gateway {url}: {error}", hint="write it as http://HOST:PORT"
            ) from error

    @classmethod
    def find(cls, gateway: str, token: str, state: StateDir) -> Self:
        """The gateway at that URL, or else the one of the stack in `state`; NotRunning."""
        if gateway:
            return cls(gateway, token)
        now = state.read()
        process = now.find("gateway") if now is not None else None
        if process is None or not process.http:
            raise NotRunning(
                f"no gateway runs from {state.path}",
                hint="start a stack with `envfarm up`, or name a gateway with --gateway",
            )
        return cls(process.http, token or state.secrets()["gateway_infra"])

    def jobs(self) -> list[Job]:
        return self._ask("GET", "/v1/jobs")

    def job(self, job_id: str) -> Job:
        return self._ask("GET", _of(job_id))

    def slots(self, job_id: str) -> list[dict[str, Any]]:
        """What each running attempt does, the longest first."""
        return self._ask("GET", f"{_of(job_id)}/slots")

    def submit(self, body: dict[str, Any]) -> Job:
        return self._ask("POST", "/v1/jobs", body)

    def cancel(self, job_id: str) -> Job:
        return self._ask("POST", f"{_of(job_id)}/cancel")

    def resume(self, job_id: str) -> Job:
        return self._ask("POST", f"{_of(job_id)}/resume")

    def events(self, job_id: str) -> Iterator[Event]:
        """Until the job has ended. A gateway that restarts is found again, and no group is told
        twice; NotRunning when it stays away."""
        seen, heard = 0, time.monotonic()
        while True:
            try:
                for number, event in self._stream(job_id, seen):
                    seen, heard = number or seen, time.monotonic()
                    yield event
                    if event.kind == "end":
                        return
            except (httpx.TransportError, httpx.StreamError) as error:
                self.require_lately(heard, error)
                yield Event("lost", {"message": str(error)})
            time.sleep(RETRY_SECONDS)

    def require_lately(self, heard: float, error: Exception) -> None:
        """NotRunning when the gateway, last heard at that time.monotonic(), stays away."""
        if time.monotonic() - heard > GONE_SECONDS:
            raise NotRunning(
                f"{self.url} has not answered for {GONE_SECONDS:.0f} s: {error}",
                hint="the job goes on when the gateway starts again; see its log",
            ) from error

    def _stream(self, job_id: str, seen: int) -> Iterator[tuple[int, Event]]:
        with self._client.stream(
            "GET",
            f"{_of(job_id)}/events",
            headers={"last-event-id": str(seen)},
            timeout=httpx.Timeout(CALL_SECONDS, read=SILENT_SECONDS),
        ) as answer:
            if answer.status_code != 200:
                answer.read()
                raise refusal(self.url, answer)
            fields: dict[str, str] = {}
            for line in answer.iter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                    continue
                if "data" in fields:
                    event = Event(fields.get("event", ""), self._json(fields["data"]))
                    yield int(fields.get("id", 0)), event
                fields = {}

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = self._client.request(method, path, json=body)
        if answer.status_code not in (200, 201):
            raise refusal(self.url, answer)
        return self._json(answer.content)

    def _json(self, text: str | bytes) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise Failure(
                f"{self.url}: the answer is not JSON",
                hint="see that this is the address of a gateway",
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()


def _of(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"
