"""What a running Prometheus answers: series over a time, and alerts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from envfarm_cli.failure import NotRunning


@dataclass(frozen=True, slots=True)
class Series:
    """One line: when (Unix seconds) and how much, without what is no number."""

    labels: Mapping[str, str]
    times: list[float]
    values: list[float]


class Prometheus:
    """Its HTTP API. NotRunning when it does not answer, or refuses an expression."""

    def __init__(self, url: str):
        self.url = url.rstrip("/")
        self._client = httpx.Client(base_url=self.url, timeout=30, trust_env=False)

    def __enter__(self) -> "Prometheus":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def range(self, expression: str, start: float, end: float, step: float) -> list[Series]:
        """The expression at every `step` seconds from `start` to `end`."""
        asked = {"query": expression, "start": start, "end": end, "step": step}
        found = self._get("/api/v1/query_range", asked)
        lines = []
        for item in found["result"]:
            points = [(at, float(text)) for at, text in item["values"]]
            known = [(at, value) for at, value in points if math.isfinite(value)]
            if known:
                times, values = zip(*known, strict=True)
                lines.append(Series(item["metric"], list(times), list(values)))
        return lines

    def firing(self) -> set[str]:
        """Names of the alerts that fire now."""
        alerts = self._get("/api/v1/alerts", {})["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def _get(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = self._client.get(path, params=asked)
            body = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise NotRunning(
                f"no Prometheus answers at {self.url}: {type(error).__name__}",
                hint="`envfarm watch` starts one beside a running stack",
            ) from error
        if answer.status_code != 200:
            raise NotRunning(f"{self.url}{path}: {body.get('error', answer.status_code)}")
        return body["data"]
