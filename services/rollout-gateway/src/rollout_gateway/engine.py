"""One vLLM server, spoken to over HTTP: token ids in; ids, raw logprobs and weight versions out.

Everything that an engine answers is checked here; whatever is wrong with it is an EngineError.
Reload and probe need the engine's dev mode; `policy.py` decides when they happen.
"""

import asyncio
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
from envfarm.errors import EngineError, VersionMismatch
from envfarm.sampling import Sampling
from envfarm.v1 import policy_pb2
from envfarm_common import tracing

from rollout_gateway.generation_request import sampling_params

NO_LOGPROB = -9000.0
"""vLLM writes -9999 where it has no value."""
LOGPROB_SLACK = 1e-4
SHORT_SECONDS = 10.0
RELOAD_SECONDS = 600.0
ABORT_SECONDS = 2.0
KEEP_SECONDS = 4.0
"""Below the 5 s after which uvicorn closes an idle connection."""
RESET_TRIES = 20
GAUGE = re.compile(
    r"^vllm:(num_requests_waiting|kv_cache_usage_perc)(?:\{[^}]*\})? ([0-9.eE+-]+)$", re.MULTILINE
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """ids and logprobs have one length; spans (label, length) cover it in order."""

    ids: list[int]
    logprobs: list[float]
    spans: list[tuple[str, int]]
    cut: bool
    """The turn ended at max_tokens, not by the policy."""


@dataclass(frozen=True, slots=True)
class Pressure:
    waiting: float
    """Requests that the engine has taken and not begun."""
    cache: float
    """Share of the KV cache in use, 0 to 1."""


class Engine:
    def __init__(self, url: str, model: str, sampling: Sampling, generate_seconds: float):
        self.url = url
        self._model = model
        self._sampling = sampling
        self._generate_seconds = generate_seconds
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def generate(
        self, ids: Sequence[int], *, request_id: str, max_tokens: int, stops: tuple[int, ...]
    ) -> Generation:
        """Sample one turn; on cancellation the request is aborted."""
        parameters = sampling_params(self._sampling, max_tokens=max_tokens, stops=stops)
        body = self._body(ids, request_id, parameters)
        try:
            async with asyncio.timeout(self._generate_seconds):
                answer = await self._post("/inference/v1/generate", body, timeout=None)
        except TimeoutError as error:
            await self._abort(request_id)
            raise EngineError(
                f"{self.url}: no answer to {request_id} within {self._generate_seconds:g} s"
            ) from error
        except asyncio.CancelledError:
            await asyncio.shield(self._abort(request_id))
            raise
        return _generation(answer, f"{self.url}: {request_id}", max_tokens)

    async def is_healthy(self) -> bool:
        try:
            status, _ = await self._fetch("GET", "/health", None, SHORT_SECONDS)
        except EngineError:
            return False
        return status == 200

    async def max_length(self) -> int:
        """Longest sequence, prompt and output, in tokens."""
        answer = await self._request("GET", "/v1/models", None, SHORT_SECONDS)
        for model in _list(answer, "data"):
            if model.get("id") == self._model and isinstance(model.get("max_model_len"), int):
                return model["max_model_len"]
        raise EngineError(
            f"{self.url} serves no model named {self._model}",
            hint="start it with --served-model-name, or set GATEWAY_MODEL_NAME",
        )

    async def pressure(self) -> Pressure | None:
        """From its /metrics; None when it does not tell."""
        _, answer = await self._fetch("GET", "/metrics", None, SHORT_SECONDS)
        text = answer.decode(errors="replace")
        told = {name: float(value) for name, value in GAUGE.findall(text)}
        waiting, cache = told.get("num_requests_waiting"), told.get("kv_cache_usage_perc")
        return None if waiting is None or cache is None else Pressure(waiting, cache)

    async def label(self) -> str:
        """Name of the weights it says it holds."""
        answer = await self._request("GET", "/weight_info", None, SHORT_SECONDS)
        return str(answer.get("weight_version"))

    async def reload(self, path: str, label: str, pause_mode: str) -> None:
        """Pause, load the weights in `path`, drop what was cached under the old ones, resume."""
        await self._post(f"/pause?mode={pause_mode}", None, timeout=self._generate_seconds)
        body = {"method": "reload_weights", "kwargs": {"weights_path": path}}
        await self._post("/collective_rpc", body, timeout=RELOAD_SECONDS)
        await self._reset_prefix_cache()
        await self._post("/update_weight_version", {"new_version": label})
        await self._post("/resume", None)

    async def pause(self) -> None:
        """Stop and abort whatever runs."""
        await self._post("/pause?mode=abort", None)

    async def probe_gap(self, probe: policy_pb2.ProbePrompt) -> float:
        """Largest |engine - learner| over the probe prompt, in nats."""
        ids = list(probe.token_ids)
        parameters = sampling_params(self._sampling, max_tokens=1, stops=())
        parameters["prompt_logprobs"] = 0
        body = self._body(ids, "probe", parameters)
        answer = await self._post("/inference/v1/generate", body, timeout=60.0)
        ours = _prompt_logprobs(answer, ids, self.url)
        return max(abs(a - b) for a, b in zip(ours, probe.logprobs, strict=True))

    async def check_probe(self, probe: policy_pb2.ProbePrompt) -> float:
        """The gap; VersionMismatch when it is above the probe's tolerance."""
        gap = await self.probe_gap(probe)
        if not gap <= probe.tolerance:
            raise VersionMismatch(
                f"{self.url}: probe log-probabilities differ by {gap:.3g}, "
                f"tolerance {probe.tolerance:.3g}",
                hint="the engine does not hold the announced weights; with tied embeddings the "
                "CPU build of vLLM keeps the old output layer",
            )
        return gap

    def _body(
        self, ids: Sequence[int], request_id: str, parameters: dict[str, Any]
    ) -> dict[str, Any]:
        return {
            "request_id": request_id,
            "model": self._model,
            "token_ids": list(ids),
            "sampling_params": parameters,
            "stream": False,
        }

    async def _reset_prefix_cache(self) -> None:
        # It answers 200 with success false while blocks are held; the caller may ask again.
        for _ in range(RESET_TRIES):
            answer = await self._post("/reset_prefix_cache?reset_running_requests=true", None)
            if answer.get("success") is True:
                return
            await asyncio.sleep(0.1)
        raise EngineError(f"{self.url}: the prefix cache of the old weights could not be reset")

    async def _abort(self, request_id: str) -> None:
        # vLLM prefixes the ids of this route; the closed connection already ends most requests.
        body = {"request_ids": [f"generate-tokens-{request_id}"]}
        try:
            await self._fetch("POST", "/inference/v1/abort_requests", body, ABORT_SECONDS)
        except EngineError:
            pass

    async def _post(
        self, path: str, body: dict[str, Any] | None, timeout: float | None = SHORT_SECONDS
    ) -> dict[str, Any]:
        return await self._request("POST", path, body, timeout)

    async def _request(
        self, method: str, path: str, body: dict[str, Any] | None, timeout: float | None
    ) -> dict[str, Any]:
        what = f"{self.url}{path.partition('?')[0]}"
        status, answer = await self._fetch(method, path, body, timeout)
        if status != 200:
            text = answer[:300].decode(errors="replace")
            raise EngineError(f"{what}: HTTP {status}: {text}")
        try:
            value = json.loads(answer) if answer else {}
        except ValueError as error:
            raise EngineError(f"{what}: {type(error).__name__}: {error}") from error
        if not isinstance(value, dict):
            raise EngineError(f"{what}: the answer is not a JSON object")
        return value

    async def _fetch(
        self, method: str, path: str, body: dict[str, Any] | None, timeout: float | None
    ) -> tuple[int, bytes]:
        """Status and body; EngineError when there is no whole answer."""
        if self._session is None:
            # httpx costs four times as much for a request; an episode makes one for each turn.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_SECONDS)
            self._session = aiohttp.ClientSession(connector=connector)
        try:
            async with self._session.request(
                method,
                self.url + path,
                json=body,
                headers=tracing.carried(),
                timeout=aiohttp.ClientTimeout(total=timeout),
            ) as answer:
                return answer.status, await answer.read()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            what = f"{self.url}{path.partition('?')[0]}"
            raise EngineError(f"{what}: {type(error).__name__}: {error}") from error


def _generation(answer: dict[str, Any], what: str, max_tokens: int) -> Generation:
    choices = _list(answer, "choices")
    if len(choices) != 1:
        raise EngineError(f"{what}: {len(choices)} choices instead of one")
    choice = choices[0]
    ids = choice.get("token_ids")
    if not isinstance(ids, list) or not ids or len(ids) > max_tokens:
        raise EngineError(f"{what}: {len(ids or ())} tokens, wanted 1 to {max_tokens}")
    if not all(type(number) is int and number >= 0 for number in ids):
        raise EngineError(f"{what}: a token id is not a whole number")
    reason = choice.get("finish_reason")
    if reason not in ("stop", "length"):
        raise EngineError(f"{what}: ended by {reason!r}")
    logprobs = _logprobs(choice, ids, what)
    return Generation(
        ids=ids, logprobs=logprobs, spans=_spans(choice, len(ids), what), cut=reason == "length"
    )


def _logprobs(choice: dict[str, Any], ids: list[int], what: str) -> list[float]:
    content = (choice.get("logprobs") or {}).get("content")
    if not isinstance(content, list) or len(content) != len(ids):
        raise EngineError(f"{what}: {len(ids)} tokens but {len(content or ())} log-probabilities")
    if [entry.get("token_id") for entry in content] != ids:
        raise EngineError(f"{what}: the log-probabilities belong to other tokens")
    return [_logprob(entry.get("logprob"), what) for entry in content]


def _logprob(value: Any, what: str) -> float:
    number = value if isinstance(value, float | int) else math.nan
    if not (math.isfinite(number) and NO_LOGPROB < number <= LOGPROB_SLACK):
        raise EngineError(f"{what}: {value!r} is no log-probability")
    return float(number)


def _spans(choice: dict[str, Any], total: int, what: str) -> list[tuple[str, int]]:
    spans, end = [], 0
    for span in choice.get("weight_versions") or ():
        if span.get("start") != end or not isinstance(span.get("end"), int) or span["end"] <= end:
            raise EngineError(f"{what}: the weight versions do not follow each other")
        spans.append((str(span.get("version")), span["end"] - end))
        end = span["end"]
    if end != total:
        raise EngineError(f"{what}: the weight versions cover {end} of {total} tokens")
    return spans


def _prompt_logprobs(answer: dict[str, Any], ids: list[int], what: str) -> list[float]:
    rows = answer.get("prompt_logprobs")
    if not isinstance(rows, list) or len(rows) != len(ids):
        raise EngineError(f"{what}: the probe has {len(ids)} tokens, its answer does not")
    return [
        _logprob(((row or {}).get(str(number)) or {}).get("logprob"), what)
        for row, number in zip(rows[1:], ids[1:], strict=True)
    ]


def _list(answer: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = answer.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
